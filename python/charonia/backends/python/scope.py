"""A module namespace for one inline model version: its files hide nobody else's, and nobody else's hide its.

The model's modules become submodules of a package with a name that is used once. They get `__builtins__` of their own,
whose `__import__` looks among the model's files first; so `import helper` in two models gives two modules, also when it
is executed later, inside a function. The standard library always wins over a file of the same name.
"""

import builtins
import importlib
import importlib.util
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import FileFinder, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from charonia.backends.python.child.errors import ModelFailure
from charonia.backends.python.child.failures import describe


class Scope:
    """The namespace. `close` removes every trace of it.

    Args:
        folders: where the model's own modules are.
        provided: modules that exist in this scope only, by name.
        breakpoint_: what `breakpoint()` does in the model's code.
    """

    def __init__(
        self, folders: Sequence[Path], provided: Mapping[str, ModuleType], breakpoint_: Callable[..., Any]
    ) -> None:
        self.package = f"charonia_inline_{uuid.uuid4().hex[:12]}"
        self._folders = [str(folder) for folder in folders]
        self._provided = provided
        self._own: dict[str, bool] = {}
        self.builtins = dict(vars(builtins), __import__=self._import, breakpoint=breakpoint_)
        root = ModuleType(self.package)
        root.__path__ = self._folders
        sys.modules[self.package] = root
        self._finder = _ScopeFinder(self)
        _look_again_into(self._folders)
        sys.meta_path.insert(0, self._finder)

    def load(self, path: Path) -> ModuleType:
        """Run a file as a module of the scope.

        Raises:
            ModelFailure: with the reason.
        """
        name = f"{self.package}.{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path, loader=_ScopeLoader(self, name, str(path)))
        if spec is None or spec.loader is None:
            raise ModelFailure(f"the model file {path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            raise ModelFailure(f"importing {path} failed: {describe(error)}") from None
        return module

    def close(self) -> None:
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        prefix = self.package + "."
        # A copy, made at once: other models may be importing, or closing, meanwhile.
        for name in [name for name in list(sys.modules) if name == self.package or name.startswith(prefix)]:
            del sys.modules[name]

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0:
            top = name.partition(".")[0]
            if name in self._provided:
                return self._provided[name]
            if self._is_own(top):
                module = builtins.__import__(f"{self.package}.{name}", globals, locals, fromlist or (), 0)
                return module if fromlist else sys.modules[f"{self.package}.{top}"]
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def _is_own(self, top: str) -> bool:
        own = self._own.get(top)
        if own is None:
            own = self._own[top] = self._find_own(top)
        return own

    def _find_own(self, top: str) -> bool:
        if top in sys.stdlib_module_names:
            return False
        spec = PathFinder.find_spec(top, self._folders)
        if spec is None:
            return False
        # A plain folder (weights, say) counts as a package only when no real one has its name.
        return spec.origin is not None or (top not in sys.modules and importlib.util.find_spec(top) is None)


def _look_again_into(folders: Sequence[str]) -> None:
    """What lies there may have changed since it was last imported from. `importlib.invalidate_caches` would look at
    every folder, and fails where other threads import, or do the same, meanwhile."""
    for known in list(sys.path_importer_cache):
        if any(Path(known).is_relative_to(folder) for folder in folders):
            finder = sys.path_importer_cache.get(known)
            if isinstance(finder, FileFinder):
                finder.invalidate_caches()


class _ScopeFinder:
    """Finds submodules of the scope's package, at any depth, and gives them the scope's loader."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._prefix = scope.package + "."

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(self._prefix):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.origin is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _ScopeLoader(self._scope, name, spec.origin)
        return spec


class _ScopeLoader(SourceFileLoader):
    """Compiles from the source every time (a cached file may be of older code), and sets the scope's builtins."""

    def __init__(self, scope: Scope, name: str, path: str) -> None:
        super().__init__(name, path)
        self._scope = scope

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self._scope.builtins
        super().exec_module(module)
