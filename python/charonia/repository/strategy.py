"""The batching strategy of a model: found, looked at without being executed, and loaded."""

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from charonia.backends.base import ModelContext
from charonia.backends.inspecting import file_error
from charonia.backends.python.child.errors import ModelFailure
from charonia.backends.python.scope import Scope
from charonia.backends.python.source import Function, Source, classes_of, inherits, methods_of, read_source
from charonia.config.batching_strategy import IN_PYTHON, TRITON_LIBRARY, StrategySetting, batching_strategy
from charonia.config.findings import ConfigError, Finding, Severity
from charonia.core.batching import Model, Strategy
from charonia.core.errors import BackendError, CharoniaError, InvalidArgumentError

ENTRY_POINT_GROUP = "charonia.batching"
CLASS_NAME = "BatchingStrategy"
_HOOKS = {"start_batch": "self", "may_join": "self, batch, request", "finish_batch": "self, batch"}
_CALLED = {"__init__": "self, model", **_HOOKS}


@dataclass(frozen=True, slots=True)
class LoadedStrategy:
    """`hooks`: None where the model has no strategy. Whoever loaded it closes it."""

    hooks: Strategy | None = None
    scope: Scope | None = None

    def close(self) -> None:
        finalize = getattr(self.hooks, "finalize", None)
        if finalize is not None:
            with suppress(Exception):  # the model is gone: nobody is left whom it could concern
                finalize()
        if self.scope is not None:
            self.scope.close()


def inspect_strategy(context: ModelContext) -> Iterator[Finding]:
    """What is wrong with the strategy that the configuration names. Nothing of it is executed."""
    setting = batching_strategy(context.config)
    if setting is None:
        yield from _libraries(context)
        return
    if context.config.HasField("sequence_batching") or not setting.value or setting.value.endswith(".so"):
        return  # which the configuration's own rules tell
    if not setting.is_file:
        names = sorted(point.name for point in metadata.entry_points(group=ENTRY_POINT_GROUP))
        if setting.value not in names:
            yield _no_entry_point(setting, names, context)
        return
    path = _file(setting, context)
    if isinstance(path, Finding):
        yield path
        return
    source = read_source(path)
    if isinstance(source, Finding):
        yield source
    else:
        yield from _class_findings(source)


def load_strategy(context: ModelContext) -> LoadedStrategy:
    """The strategy, made for the model version; without one, a `LoadedStrategy` without hooks.

    Raises:
        ConfigError: it is not there, or lacks what it needs.
        BackendError: its code failed.
    """
    errors = [each for each in inspect_strategy(context) if each.is_error]
    if errors:
        raise ConfigError(errors)
    setting = batching_strategy(context.config)
    if setting is None or not context.config.HasField("dynamic_batching"):
        return LoadedStrategy()
    scope = None
    try:
        if setting.is_file:
            path = _file(setting, context)
            assert isinstance(path, Path)
            folders = tuple(dict.fromkeys((path.parent, context.version_dir, context.model_dir)))
            scope = Scope(folders, {}, breakpoint)
            made: Any = getattr(scope.load(path), CLASS_NAME)
        else:
            (point,) = [*metadata.entry_points(group=ENTRY_POINT_GROUP, name=setting.value)][:1]
            made = point.load()
        hooks = made(_model(context))
        _demand_hooks(hooks, setting)
    except BaseException as error:
        if scope is not None:
            scope.close()
        if isinstance(error, CharoniaError) or not isinstance(error, Exception | SystemExit):
            raise
        said = str(error) if isinstance(error, ModelFailure) else f"{type(error).__name__}: {error}"
        raise BackendError(
            f"the batching strategy '{setting.value}' of model '{context.name}' failed: {said}"
        ) from None
    context.server.log.info(f"model '{context.name}': batches are formed with the strategy '{setting.value}'")
    return LoadedStrategy(hooks, scope)


def _model(context: ModelContext) -> Model:
    parameters = {key: value.string_value for key, value in context.config.parameters.items()}
    return Model(context.name, context.version, context.model_dir, context.config.max_batch_size, parameters)


def _demand_hooks(hooks: object, setting: StrategySetting) -> None:
    missing = [name for name in _HOOKS if not callable(getattr(hooks, name, None))]
    if missing:
        raise InvalidArgumentError(
            f"the batching strategy '{setting.value}' lacks {' and '.join(missing)}; {CLASS_NAME} needs "
            f"{', '.join(f'{name}({arguments})' for name, arguments in _HOOKS.items())}"
        )


def _file(setting: StrategySetting, context: ModelContext) -> Path | Finding:
    """Relative to the version's folder or the model's; or, as Triton has it, to where the server was started."""
    model_dir = context.model_dir.resolve()
    for start in (context.version_dir, context.model_dir, Path.cwd()):
        path = start / setting.value
        if path.is_file() and path.resolve().is_relative_to(model_dir):
            return path
    where = f"neither in '{context.version_dir}' nor in '{context.model_dir}'"
    if (context.model_dir / setting.value).is_file():
        where = "outside of the model's folder"
    message = f'{setting.key} names the file "{setting.value}", which lies {where}'
    return _at_setting(setting, context, message, "write its path from the model's folder, and put it there")


def _no_entry_point(setting: StrategySetting, names: list[str], context: ModelContext) -> Finding:
    known = f"there are {', '.join(names)}" if names else "there is none"
    message = f"{setting.key} is \"{setting.value}\", and of the entry points of '{ENTRY_POINT_GROUP}' {known}"
    remedy = "install the package that has it, or name a file that ends in .py"
    return _at_setting(setting, context, message, remedy)


def _at_setting(setting: StrategySetting, context: ModelContext, message: str, remedy: str) -> Finding:
    return Finding(Severity.ERROR, setting.path, context.places.find(setting.path), message, remedy)


def _libraries(context: ModelContext) -> Iterator[Finding]:
    """Without it the model would be served with batches that its owner did not want."""
    if context.config.HasField("dynamic_batching"):
        for folder in (context.version_dir, context.model_dir):
            if (folder / TRITON_LIBRARY).is_file():
                message = "a batching strategy that is a C++ library can't be used here"
                yield file_error(folder / TRITON_LIBRARY, message, f"remove it, and {IN_PYTHON}")


def _class_findings(source: Source) -> Iterator[Finding]:
    classes = classes_of(source)
    found = next((each for each in classes if each.name == CLASS_NAME), None)
    if found is None:
        meant = next((each for each in classes if "may_join" in methods_of(each)), None)
        if meant is not None:
            yield source.error(meant, f"the file has no class named {CLASS_NAME}", f"name '{meant.name}' so")
        elif CLASS_NAME not in "\n".join(source.lines):  # it may be imported, or assigned
            remedy = f"write class {CLASS_NAME} with {', '.join(_HOOKS)}"
            yield file_error(source.path, f"the file has no class named {CLASS_NAME}", remedy)
        return
    methods = methods_of(found)
    for name, arguments in _CALLED.items():
        method = methods.get(name)
        if method is None and name in _HOOKS and not inherits(found):
            message = f"class {CLASS_NAME} has no method named {name}"
            yield source.error(found, message, f"add: def {name}({arguments})")
        elif isinstance(method, ast.AsyncFunctionDef):
            yield source.error(method, f"{name} is async, and nobody awaits it", f"write def {name}({arguments}):")
        elif isinstance(method, Function) and not _takes(method, arguments):
            message = f"{name} is called as {name}({arguments}), and takes other arguments"
            yield source.error(method, message, f"write def {name}({arguments}):")
    if "__init__" not in methods and not inherits(found):
        yield source.error(
            found, f"class {CLASS_NAME} has no __init__, and is made with the model", "add: def __init__(self, model)"
        )


def _takes(method: Function, wanted: str) -> bool:
    if method.decorator_list or method.args.vararg is not None:
        return True
    takes = [*method.args.posonlyargs, *method.args.args]
    needed = len(takes) - len(method.args.defaults)
    return needed <= len(wanted.split(", ")) <= len(takes)
