"""What is wrong with a model's Python file, found by reading it: nothing of it is executed."""

import ast
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from charonia.backends.file_kinds import impostor
from charonia.backends.inspecting import file_error
from charonia.backends.python.child.model import CLASS_NAME
from charonia.backends.python.syntax import parse
from charonia.config.findings import Finding, Severity, unreadable
from charonia.config.places import Place
from charonia.core.files import read_regular

Function = ast.FunctionDef | ast.AsyncFunctionDef

# More is no code that anybody wrote; the rest of it is not read.
_MOST_BYTES = 16 << 20
# What is called, as it is called; auto_complete_config is static.
_METHODS = {
    "initialize": "self, args",
    "execute": "self, requests",
    "finalize": "self",
    "is_ready": "self",
    "sequence_ended": "self, correlation_id, reason",
}
AUTO_COMPLETE = "auto_complete_config"
_SENDER = "get_response_sender"
_CALLED = (*_METHODS, AUTO_COMPLETE)
_NO_CLASS = f"has no class named {CLASS_NAME}"
_EXAMPLE = (
    f"a model is: import triton_python_backend_utils as pb_utils; class {CLASS_NAME}: def execute(self, requests): "
    "return a list with one pb_utils.InferenceResponse for each request"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A Python file: its path, its lines, and its syntax tree."""

    path: Path
    lines: Sequence[str]
    tree: ast.Module

    def place(self, node: ast.expr | ast.stmt | ast.alias) -> Place:
        return _place(self.path, self.lines, node.lineno, node.col_offset + 1)

    def error(self, node: ast.expr | ast.stmt | ast.alias, message: str, remedy: str = "") -> Finding:
        return Finding(Severity.ERROR, "", self.place(node), message, remedy)

    def warning(self, node: ast.expr | ast.stmt | ast.alias, message: str, remedy: str = "") -> Finding:
        return Finding(Severity.WARNING, "", self.place(node), message, remedy)


def read_source(path: Path) -> Source | Finding:
    """The file, or why it can't be executed."""
    try:
        code = read_regular(path, _MOST_BYTES)
        with warnings.catch_warnings(action="ignore"):
            tree = parse(code, str(path))
            compile(tree, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        return _syntax_error(path, code, error)
    except OSError as error:
        return unreadable(path, error)
    except ValueError as error:
        return file_error(path, f"this is no Python code: {error}", "put the model's code in its place")
    except (MemoryError, RecursionError):  # how Python's own parser gives up
        return file_error(path, "Python can't read this code: it is nested too deep", "simplify what is nested in it")
    return Source(path, code.decode(errors="replace").splitlines(), tree)


def _syntax_error(path: Path, code: bytes, error: SyntaxError) -> Finding:
    what, remedy = impostor(path)
    if what and "text" not in what.partition(",")[0]:
        return file_error(path, what, remedy)
    lines = code.decode(errors="replace").splitlines()
    place = _place(path, lines, error.lineno or 1, error.offset or 1)
    cause = f"{type(error).__name__}: {error.msg}"
    return Finding(Severity.ERROR, "", place, f"this is no valid Python ({cause})", cause=cause)


def _place(path: Path, lines: Sequence[str], line: int, column: int) -> Place:
    return Place(str(path), line, column, lines[line - 1] if 0 < line <= len(lines) else "")


def model_class(source: Source) -> ast.ClassDef | None:
    """The class, when it is written in this very file."""
    return next((each for each in classes_of(source) if each.name == CLASS_NAME), None)


def has_auto_complete(source: Source) -> bool:
    """Whether the model may fill in its own configuration; True also when that can't be seen here."""
    found = model_class(source)
    return found is None or inherits(found) or AUTO_COMPLETE in ast.dump(found)


def check_class(source: Source) -> Iterator[Finding]:
    """The class that is looked for, its methods, and names that are nearly those of its methods."""
    found = model_class(source)
    if found is None:
        if not _comes_from_elsewhere(source):
            yield replace(_without_class(source), cause=_NO_CLASS)
        return
    methods = methods_of(found)
    if not inherits(found):
        yield from _without_execute(source, found, methods)
    for name, method in methods.items():
        if name in _METHODS and isinstance(method, Function):
            yield from _arguments(source, method)
        elif name not in _CALLED and not name.startswith("_"):
            yield from _nearly_called(source, method, name, methods)


def check_answers(source: Source, *, decoupled: bool) -> Iterator[Finding]:
    """An `execute` that answers in no way, or in one that a model of its kind has not."""
    found = model_class(source)
    execute = methods_of(found).get("execute") if found else None
    if not isinstance(execute, Function):
        return
    if not decoupled:
        if not _may_answer(execute) and not _mentions(source.tree, _SENDER):
            message = "execute returns nothing: it must return a list with one InferenceResponse for each request"
            yield source.warning(execute, message, "add a return")
        return
    for node in ast.walk(execute):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.List | ast.ListComp):
            message = "execute returns a list, and the model is decoupled: its responses go by response senders"
            yield source.warning(node, message, f"send each by request.{_SENDER}(), or remove decoupled: true")
    if not _may_answer(execute) and not any(isinstance(node, ast.Call) for node in ast.walk(execute)):
        message = "execute sends nothing, and the model is decoupled: its responses go by response senders"
        yield source.warning(execute, message, f"send them by request.{_SENDER}()")


def never_callable(source: Source) -> Iterator[Finding]:
    """An `execute` that can't be called: the model would load, and fail every request."""
    found = model_class(source)
    # A decorator or a metaclass may make another method of it.
    execute = methods_of(found).get("execute") if found and not (found.decorator_list or found.keywords) else None
    if isinstance(execute, Function):
        yield from _arguments(source, execute)


def classes_of(source: Source) -> list[ast.ClassDef]:
    """Those of the module, also inside its `if` and `try`."""
    return [node for node in _statements(source.tree.body) if isinstance(node, ast.ClassDef)]


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, name, ()))
            for handler in getattr(node, "handlers", ()):
                yield from _statements(handler.body)


def _comes_from_elsewhere(source: Source) -> bool:
    """Imported or assigned: what it is can't be seen here."""
    for node in _statements(source.tree.body):
        if isinstance(node, ast.ImportFrom) and any(
            (alias.asname or alias.name) in (CLASS_NAME, "*") for alias in node.names
        ):
            return True
        if isinstance(node, ast.Assign | ast.AnnAssign) and CLASS_NAME in ast.dump(node):
            return True
        if isinstance(node, ast.Expr) and "globals" in ast.dump(node):
            return True
    return False


def _without_class(source: Source) -> Finding:
    message = f"the file {_NO_CLASS}"
    classes = classes_of(source)
    near = get_close_matches(CLASS_NAME.lower(), [each.name.lower() for each in classes], 1, 0.7)
    meant = [each for each in classes if each.name.lower() in near] or [
        each for each in classes if "execute" in methods_of(each)
    ]
    if meant:
        return source.error(meant[0], f"{message}; it has '{meant[0].name}'", f"name that class {CLASS_NAME}")
    function = next((node for node in source.tree.body if isinstance(node, Function) and node.name == "execute"), None)
    if function is not None:
        message = f"{message}; its 'execute' is no method of it"
        return source.error(function, message, f"put it into class {CLASS_NAME}, as execute(self, requests)")
    has = f"; it has {', '.join(repr(each.name) for each in classes[:4])}" if classes else ""
    return file_error(source.path, f"{message}{has}" if source.lines else "the file is empty", _EXAMPLE)


def inherits(found: ast.ClassDef) -> bool:
    return bool(found.bases or found.keywords or found.decorator_list)


def methods_of(found: ast.ClassDef) -> dict[str, ast.stmt]:
    """What the body of a class defines, by name."""
    methods: dict[str, ast.stmt] = {}
    for node in _statements(found.body):
        if isinstance(node, Function):
            methods[node.name] = node
        elif isinstance(node, ast.Assign):
            methods.update({target.id: node for target in node.targets if isinstance(target, ast.Name)})
    return methods


def _without_execute(source: Source, found: ast.ClassDef, methods: dict[str, ast.stmt]) -> Iterator[Finding]:
    if "execute" in methods:
        return
    near = get_close_matches("execute", [name for name in methods if name not in _CALLED], 1, 0.6)
    message = f"class {CLASS_NAME} has no method named execute"
    if near:
        yield source.error(methods[near[0]], f"{message}; it has '{near[0]}'", "name it execute")
    else:
        yield source.error(found, message, "add: def execute(self, requests), which returns a list of responses")


def _arguments(source: Source, method: Function) -> Iterator[Finding]:
    """Whether the method can be called with `self` and what it is given."""
    wanted = _METHODS[method.name]
    if method.decorator_list or method.args.vararg is not None:
        return
    takes = [each.arg for each in (*method.args.posonlyargs, *method.args.args)]
    needed = len(takes) - len(method.args.defaults)
    if needed <= len(wanted.split(", ")) <= len(takes):
        return
    message = f"{method.name} is called as {method.name}({wanted}), and takes ({', '.join(takes)})"
    note = source.error if method.name in ("initialize", "execute") else source.warning
    cause = f"TypeError: {CLASS_NAME}.{method.name}()"
    yield replace(note(method, message, f"write def {method.name}({wanted}):"), cause=cause)


def _nearly_called(source: Source, method: ast.stmt, name: str, methods: dict[str, ast.stmt]) -> Iterator[Finding]:
    near = get_close_matches(name, [each for each in _CALLED if each not in methods and each != "execute"], 1, 0.82)
    if near:
        yield source.warning(method, f"'{name}' is never called by the server", f"did you mean {near[0]}?")


def _mentions(tree: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == name for node in ast.walk(tree))


def _may_answer(execute: Function) -> bool:
    """It returns something, or answers by the response sender, or hands the work on to something that can't be seen."""
    for node in ast.walk(execute):
        if isinstance(node, ast.Return) and node.value is not None:
            return True
        if isinstance(node, ast.Raise | ast.Yield):
            return True
        if isinstance(node, ast.Attribute) and node.attr == _SENDER:
            return True
    # Threads of its own may answer; a body that only passes does not.
    return any(isinstance(node, ast.Attribute) and node.attr in ("Thread", "submit") for node in ast.walk(execute))
