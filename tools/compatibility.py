"""Holds the tables of docs/compatibility against what there is: flags, configuration fields, endpoints, methods, names.

`make check` runs it. A table has one row for each name; the second column says `works`, `differs`, `no effect` or
`not yet`, the last one names the test that shows it. It fails for a name without a row, a row without a name, a status
that the program contradicts, a test that does not exist, and a number in the overview of docs/compatibility.md that is
not the number of rows.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import EnumType
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

ROOT = Path(__file__).parent.parent
OVERVIEW = ROOT / "docs" / "compatibility.md"
PAGES = ROOT / "docs" / "compatibility"
STATUSES = ("works", "differs", "no effect", "not yet")
PROVEN = ("works", "differs")
LACKING = ("no effect", "not yet")
_TEST = re.compile(r"`((?:tests|rust|benchmarks)/[^`:]+)(?:::([^`]+))?`")
_NAME = re.compile(r"`([^`]+)`")
_COUNTS = re.compile(r"^\| \[[^\]]+\]\(compatibility/([\w-]+\.md)\) \|([\d |]+)\|$", re.MULTILINE)

Known = Mapping[str, tuple[str, ...]]
"""By name, which statuses may be said of it."""

# What the extension answers by itself, beside the service of the protocol.
STANDARD_METHODS = (
    "grpc.health.v1.Health/Check",
    "grpc.health.v1.Health/Watch",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)


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


def flags() -> Known:
    from charonia.cli.flags import FLAGS, Effect

    statuses = {Effect.WORKS: PROVEN, Effect.NO_EFFECT: ("no effect",)}
    known = {f"--{name}": statuses[flag.effect] for name, flag in FLAGS.items()}
    return {**known, "--help": PROVEN, "--version": PROVEN}


def config_fields() -> Known:
    """Every field of a model's configuration, with the fields that it is in; a map's are those of its values."""
    from charonia.config.schema import ModelConfig

    found: dict[str, tuple[str, ...]] = {}

    def walk(descriptor: Any, prefix: str, outer: tuple[str, ...]) -> None:
        if descriptor.full_name in outer:
            return  # a message that contains itself
        for field in descriptor.fields:
            found[prefix + field.name] = STATUSES
            inner = field.message_type
            if inner is not None and inner.GetOptions().map_entry:
                inner = inner.fields_by_name["value"].message_type
            if inner is not None:
                walk(inner, f"{prefix}{field.name}.", (*outer, descriptor.full_name))

    walk(ModelConfig.DESCRIPTOR, "", ())
    return found


def http_endpoints() -> Known:
    """`METHOD /path` of every route of each port; a model's path stands for its versions' too."""
    from charonia.frontend.control.app import ControlApp, MetricsApp
    from charonia.frontend.control.http_answers import Endpoint
    from charonia.frontend.live.app import LiveApp
    from charonia.frontend.sagemaker import SageMakerApp

    anything: Any = SimpleNamespace()
    apps = (
        ControlApp(anything, anything, anything, anything, anything, None),
        MetricsApp(anything, anything, anything),
        SageMakerApp(anything, anything, anything, anything, anything),
        LiveApp(anything, anything, anything, anything),
    )
    found = dict(_gateways())
    for app in apps:
        for route in app.routes:
            if isinstance(route.app, Endpoint) and "/versions/{version}" not in route.path:
                found.update({f"{method} {route.path}": PROVEN for method in route.app.methods})
    return found


def _gateways() -> Known:
    """What stands for other paths on the ports of SageMaker and Vertex AI."""
    from charonia.frontend.gateways import SageMakerPaths, SageMakerSettings, VertexAiSettings

    paths: dict[str, Any] = {}
    SageMakerPaths(SageMakerSettings(), paths.update).open()
    paths.update(VertexAiSettings("$AIP_HEALTH_ROUTE", "$AIP_PREDICT_ROUTE").paths("m"))
    methods = {path: "GET" if target.startswith("/v2/health/") else "POST" for path, (target, _) in paths.items()}
    return {f"{method} {path}": PROVEN for path, method in methods.items()}


def grpc_methods() -> Known:
    from charonia.config.proto.pool import methods
    from charonia.frontend.control.rpc import SERVICE

    return dict.fromkeys((*methods(SERVICE), *STANDARD_METHODS), PROVEN)


def metrics() -> Known:
    """The families of the server itself; one that is always 0 has no effect."""
    from charonia.observe.metrics import OWN_NAMES, PINNED_NAMES

    return {name: ("no effect",) if name in PINNED_NAMES else PROVEN for name in OWN_NAMES}


def extensions() -> Known:
    """Those of the protocol, as the server's metadata names them."""
    from charonia.control.metadata import EXTENSIONS

    return dict.fromkeys(EXTENSIONS, PROVEN)


def backend_settings() -> Known:
    """`<backend>,<setting>` of `--backend-config`; what backends of others have is theirs."""
    from charonia.cli.backend_settings import SETTINGS

    return {f"{backend},{key}": PROVEN for backend, keys in SETTINGS.items() for key in keys}


def python_names() -> Known:
    """What models find in `pb_utils`, and the members of its classes."""
    from charonia.backends.python.child.pb_utils import build_module

    runtime: Any = SimpleNamespace(model_dir="")
    module = build_module(runtime)
    found: dict[str, tuple[str, ...]] = {}
    for name, value in _public(module):
        if isinstance(value, ModuleType):
            continue
        found[name] = PROVEN
        if isinstance(value, type):
            found.update({f"{name}.{member}": PROVEN for member, _ in _public(value)})
    return found


def _public(owner: object) -> Iterable[tuple[str, object]]:
    """Without what every exception has, and the members that an enumeration has from its values' type."""
    inherited = dir(owner.__mro__[1]) if isinstance(owner, EnumType) else dir(Exception)
    names = [name for name in dir(owner) if not (name.startswith("_") or name in inherited)]
    return [(name, getattr(owner, name)) for name in names]


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
    wrong += wrong_counts(OVERVIEW.read_text(), rows)
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
