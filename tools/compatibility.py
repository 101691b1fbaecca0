"""Holds the tables of docs/compatibility against what there is: flags, configuration fields, endpoints, methods, names.

`make check` runs it. A table has one row for each name; the second column says `works`, `differs`, `no effect` or
`not yet`, the last one names the test that shows it. It fails for a name without a row, a row without a name, a status
that the program contradicts, a test that does not exist, also in the tables of differences of docs/compatibility.md,
and a number in its overview that is not the number of rows.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.program_names import (
    PROVEN,
    STATUSES,
    Known,
    backend_settings,
    config_fields,
    extensions,
    flags,
    grpc_methods,
    http_endpoints,
    metrics,
    python_names,
)

ROOT = Path(__file__).parent.parent
OVERVIEW = ROOT / "docs" / "compatibility.md"
PAGES = ROOT / "docs" / "compatibility"
LACKING = ("no effect", "not yet")
_TEST = re.compile(r"`((?:tests|rust|benchmarks)/[^`:]+)(?:::([^`]+))?`")
_NAME = re.compile(r"`([^`]+)`")
_COUNTS = re.compile(r"^\| \[[^\]]+\]\(compatibility/([\w-]+\.md)\) \|([\d |]+)\|$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One row of a table; `line` counts from 1."""

    page: str
    line: int
    name: str
    status: str
    note: str
    tests: str


def rows_of(page: Path) -> Iterator[Row]:
    """The rows below every head whose second cell is `status`."""
    in_table = False
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        cells = _cells(line)
        if len(cells) != 4:
            in_table = False
        elif cells[1] == "status":
            in_table = True
        elif in_table and not set(cells[1]) <= set("-: "):
            name = _NAME.match(cells[0])
            yield Row(page.name, number, name[1] if name else cells[0], *cells[1:])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _any() -> Known | None:
    """Names that nothing has to have."""
    return None


TABLES: Mapping[str, Callable[[], Known | None]] = {
    "flags.md": flags,
    "configuration.md": config_fields,
    "http.md": http_endpoints,
    "grpc.md": grpc_methods,
    "python-api.md": python_names,
    "settings.md": backend_settings,
    "environment.md": _any,
    "metrics.md": metrics,
    "extensions.md": extensions,
    "features.md": _any,
}


def compare(page: str, rows: Iterable[Row], known: Known | None) -> Iterator[str]:
    """What is wrong with the rows of a page, a sentence each. Without `known` any name may be there."""
    seen: set[str] = set()
    for row in rows:
        at = f"docs/compatibility/{row.page}:{row.line}: `{row.name}`"
        if row.name in seen:
            yield f"{at} has two rows"
        seen.add(row.name)
        yield from (f"{at} {wrong}" for wrong in _wrong_status(row, known))
        if row.status in ("differs", "no effect") and not row.note:
            yield f"{at} is '{row.status}', and the page does not say how or why"
        if row.status in PROVEN:
            yield from (f"{at} {wrong}" for wrong in _wrong_tests(row.tests))
    for name in known or ():
        if name not in seen:
            yield f"docs/compatibility/{page}: there is no row for `{name}`"


def _wrong_status(row: Row, known: Known | None) -> Iterator[str]:
    if row.status not in STATUSES:
        yield f"is '{row.status}', which is none of {', '.join(STATUSES)}"
    elif known is not None and row.name not in known and row.status not in LACKING:
        yield f"is '{row.status}' on the page, and there is no such thing"
    elif known is not None and row.status not in known.get(row.name, LACKING):
        yield f"is '{row.status}' on the page, and in the program it is '{' or '.join(known[row.name])}'"


def _wrong_tests(cell: str) -> Iterator[str]:
    tests = _TEST.findall(cell)
    if not tests:
        yield "names no test"
    for path, name in tests:
        yield from _wrong_test(path, name)


def _wrong_test(path: str, name: str) -> Iterator[str]:
    """`name`: "" where the whole file is meant, or a folder."""
    if not (ROOT / path).exists():
        yield f"is shown by {path}, which does not exist"
    elif name and name not in _definitions(ROOT / path):
        yield f"is shown by {path}::{name}, and that file has no such test"


@cache
def _definitions(path: Path) -> frozenset[str]:
    if path.suffix != ".py":
        return frozenset(re.findall(r"fn (\w+)", path.read_text()))
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def wrong_differences(overview: str) -> Iterator[str]:
    """What is wrong with the tests that the tables of differences name, a sentence each.

    A file without a folder lies in that of the one before it; a row may name none.
    """
    for number, line in enumerate(overview.splitlines(), start=1):
        cells = _cells(line)
        if len(cells) != 4 or cells[3] == "shown by":
            continue
        folder = ""
        for named in _NAME.findall(cells[3]):
            path, _, name = named.partition("::")
            folder = path.rpartition("/")[0] or folder
            whole = path if "/" in path else f"{folder}/{path}"
            yield from (f"docs/compatibility.md:{number}: {wrong}" for wrong in _wrong_test(whole, name))


def wrong_counts(overview: str, rows: Mapping[str, Iterable[Row]]) -> Iterator[str]:
    """What is wrong with the numbers of rows by status that the overview has, a sentence each.

    Args:
        rows: by page.
    """
    said = {page: [int(number) for number in numbers.split("|")] for page, numbers in _COUNTS.findall(overview)}
    for page, found in rows.items():
        counted = Counter(row.status for row in found)
        numbers = [counted[status] for status in STATUSES]
        if said.get(page) != numbers:
            wanted = " | ".join(map(str, numbers))
            yield f"docs/compatibility.md: the numbers of {page} must be | {wanted} |, got {said.get(page, 'none')}"


def main() -> int:
    rows = {page: list(rows_of(PAGES / page)) for page in TABLES}
    wrong = [sentence for page, known in TABLES.items() for sentence in compare(page, rows[page], known())]
    overview = OVERVIEW.read_text()
    wrong += [*wrong_counts(overview, rows), *wrong_differences(overview)]
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
