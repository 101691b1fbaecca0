"""Holds the tables of docs/compatibility against what there is: flags, configuration fields, endpoints, methods, names.

`make check` runs it. A table has one row for each name; the second column says `works`, `differs`, `no effect` or
`not yet`, the last one names the test that shows it. It fails for a name without a row, a row without a name, a row of a
flag against what the command says, and a test that does not exist.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "compatibility"
STATUSES = ("works", "differs", "no effect", "not yet")
PROVEN = ("works", "differs")
_TEST = re.compile(r"`((?:tests|rust)/[^`:]+)(?:::([^`]+))?`")
_NAME = re.compile(r"`([^`]+)`")


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
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 4:
            in_table = False
        elif cells[1] == "status":
            in_table = True
        elif in_table and not set(cells[1]) <= set("-: "):
            name = _NAME.match(cells[0])
            yield Row(page.name, number, name[1] if name else cells[0], *cells[1:])


def flags() -> Mapping[str, str]:
    """By flag, the status that its effect asks for; "" where two would fit."""
    from charonia.cli.flags import FLAGS, Effect

    statuses = {Effect.WORKS: "", Effect.NO_EFFECT: "no effect"}
    return {f"--{name}": statuses[flag.effect] for name, flag in FLAGS.items()}


def config_fields() -> Mapping[str, str]:
    """Every field of a model's configuration, with the fields that it is in; a map's are those of its values."""
    from charonia.config.schema import ModelConfig

    found: dict[str, str] = {}

    def walk(descriptor: Any, prefix: str, outer: tuple[str, ...]) -> None:
        if descriptor.full_name in outer:
            return  # a message that contains itself
        for field in descriptor.fields:
            found[prefix + field.name] = ""
            inner = field.message_type
            if inner is not None and inner.GetOptions().map_entry:
                inner = inner.fields_by_name["value"].message_type
            if inner is not None:
                walk(inner, f"{prefix}{field.name}.", (*outer, descriptor.full_name))

    walk(ModelConfig.DESCRIPTOR, "", ())
    return found


def http_endpoints() -> Mapping[str, str]:
    """`METHOD /path` of every route of the HTTP and the metrics port; a model's path stands for its versions' too."""
    from charonia.frontend.control.app import ControlApp, MetricsApp
    from charonia.frontend.control.http_answers import Endpoint

    anything: Any = SimpleNamespace()
    apps = (
        ControlApp(anything, anything, anything, anything, anything, None),
        MetricsApp(anything, anything, anything),
    )
    found = {}
    for app in apps:
        for route in app.routes:
            if isinstance(route.app, Endpoint) and "/versions/{version}" not in route.path:
                found.update({f"{method} {route.path}": "" for method in route.app.methods})
    return found


def grpc_methods() -> Mapping[str, str]:
    from charonia.config.proto.pool import methods
    from charonia.frontend.control.rpc import SERVICE

    return dict.fromkeys(methods(SERVICE), "")


def python_names() -> Mapping[str, str]:
    """What models find in `pb_utils`, and the members of its classes."""
    from charonia.backends.python.child.pb_utils import build_module

    runtime: Any = SimpleNamespace(model_dir="")
    module = build_module(runtime)
    found = {}
    for name, value in _public(module):
        if isinstance(value, ModuleType):
            continue
        found[name] = ""
        if isinstance(value, type):
            found.update({f"{name}.{member}": "" for member, _ in _public(value)})
    return found


def _public(owner: object) -> Iterable[tuple[str, object]]:
    """Without what every exception has."""
    names = [name for name in dir(owner) if not (name.startswith("_") or hasattr(Exception, name))]
    return [(name, getattr(owner, name)) for name in names]


TABLES: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "flags.md": flags,
    "configuration.md": config_fields,
    "http.md": http_endpoints,
    "grpc.md": grpc_methods,
    "python-api.md": python_names,
}


def compare(page: str, rows: Iterable[Row], wanted: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the rows of a page, a sentence each."""
    seen: set[str] = set()
    for row in rows:
        at = f"docs/compatibility/{row.page}:{row.line}: `{row.name}`"
        if row.name in seen:
            yield f"{at} has two rows"
        seen.add(row.name)
        if row.status not in STATUSES:
            yield f"{at} is '{row.status}', which is none of {', '.join(STATUSES)}"
        if row.name not in wanted and row.status in PROVEN:
            yield f"{at} {row.status}, says the page, and there is no such thing"
        status = wanted.get(row.name, "")
        if status and row.status != status:
            yield f"{at} is '{row.status}' on the page and '{status}' in the program"
        if not status and row.name in wanted and row.status == "no effect" and not row.note:
            yield f"{at} has no effect, and the page does not say why"
        if row.status == "differs" and not row.note:
            yield f"{at} differs, and the page does not say how"
        if row.status in PROVEN:
            yield from (f"{at} {wrong}" for wrong in _wrong_tests(row.tests))
    for name in wanted:
        if name not in seen:
            yield f"docs/compatibility/{page}: there is no row for `{name}`"


def _wrong_tests(cell: str) -> Iterator[str]:
    tests = _TEST.findall(cell)
    if not tests:
        yield "names no test"
    for path, name in tests:
        if not (ROOT / path).is_file():
            yield f"is shown by {path}, which does not exist"
        elif name and name not in _definitions(ROOT / path):
            yield f"is shown by {path}::{name}, and that file has no such test"


@cache
def _definitions(path: Path) -> frozenset[str]:
    if path.suffix != ".py":
        return frozenset(re.findall(r"fn (\w+)", path.read_text()))
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def main() -> int:
    wrong = [sentence for page, wanted in TABLES.items() for sentence in compare(page, rows_of(PAGES / page), wanted())]
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
