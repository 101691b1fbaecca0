"""Which backends there are, by the name in `backend` of config.pbtxt."""

import threading
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

from charonia.backends.base import Backend, ProcessOwner
from charonia.backends.identity import IdentityBackend
from charonia.backends.not_installed import not_installed
from charonia.backends.onnxruntime import OnnxRuntimeBackend
from charonia.core.errors import BackendError, CharoniaError

ENTRY_POINT_GROUP = "charonia.backends"

BackendFactory = Callable[[], Backend]
PythonBackedFactory = Callable[[str, Path], Backend]
"""Makes a Python-based backend in Triton's form from its name and its `model.py`, which serves every model of it."""


class BackendRegistry:
    """The backends of one server, each made when the first model needs it, each closed by `close`.

    A name is looked up among the embedded backends, then among the entry points of the group `charonia.backends` (a
    callable without arguments that gives a `Backend`), then as `<backend directory>/<name>/model.py`.

    Args:
        backend_directory: where Python-based backends lie; None or a missing folder for none.
        backend_configs: the `--backend-config` settings by backend name; those under "" are for every backend.
        embedded: the backends that come with the server.
        python_backed: makes Python-based backends; None when there is no Python backend.
    """

    def __init__(
        self,
        backend_directory: Path | None,
        backend_configs: Mapping[str, Mapping[str, str]],
        embedded: Mapping[str, BackendFactory] | None = None,
        python_backed: PythonBackedFactory | None = None,
    ) -> None:
        self._directory = backend_directory
        self._configs = backend_configs
        self._embedded = embedded_backends() if embedded is None else embedded
        self._python_backed = python_backed_factory() if python_backed is None else python_backed
        self._lock = threading.Lock()
        self._made: dict[str, Backend] = {}

    def get(self, name: str) -> Backend:
        """The backend of this name; the same one each time.

        Raises:
            NotFoundError: there is none; the message says what to install.
            BackendError: it is there and can't be made.
        """
        with self._lock:
            if name not in self._made:
                self._made[name] = self._make(name)
            return self._made[name]

    def config_for(self, name: str) -> dict[str, str]:
        """The settings of this backend, over those for every backend."""
        return {**self._configs.get("", {}), **self._configs.get(name, {})}

    def names(self) -> list[str]:
        """All backends that can be asked for now, sorted."""
        return sorted({*self._embedded, *_entry_points(), *self._python_based()})

    def made(self) -> list[str]:
        """The backends that models have asked for, sorted."""
        return sorted(self._made)

    def close(self) -> None:
        """Close every backend; after the models of all of them are closed."""
        with self._lock:
            backends, self._made = list(self._made.values()), {}
        for backend in backends:
            backend.close()

    def kill(self) -> None:
        """Leave no process behind, where models did not end in time. Nothing else is freed."""
        with self._lock:
            backends = list(self._made.values())
        for backend in backends:
            if isinstance(backend, ProcessOwner):
                backend.kill()

    def _make(self, name: str) -> Backend:
        try:
            return self._factory(name)()
        except CharoniaError:
            raise
        except Exception as error:
            raise BackendError(f"backend '{name}' can't be started: {type(error).__name__}: {error}") from error

    def _factory(self, name: str) -> BackendFactory:
        if name in self._embedded:
            return self._embedded[name]
        entry_point = _entry_points().get(name)
        if entry_point is not None:
            factory: BackendFactory = entry_point.load()
            return factory
        model_file = self._python_based().get(name)
        if model_file is None:
            raise not_installed(name, self.names(), self._directory)
        python_backed = self._python_backed
        return lambda: python_backed(name, model_file)

    def _python_based(self) -> dict[str, Path]:
        if self._directory is None:
            return {}
        return {path.parent.name: path for path in self._directory.glob("*/model.py")}


def embedded_backends() -> dict[str, BackendFactory]:
    """The backends that come with the server. None of them imports what it may not find before a model asks for it."""
    return {"identity": IdentityBackend, "onnxruntime": OnnxRuntimeBackend, "python": _python_backend}


def python_backed_factory() -> PythonBackedFactory:
    """Python-based backends run in the Python backend, with the backend's own `model.py` in place of the model's."""

    def make(name: str, model_file: Path) -> Backend:
        from charonia.backends.python import PythonBackend

        return PythonBackend(name, model_file)

    return make


def _python_backend() -> Backend:
    from charonia.backends.python import PythonBackend

    return PythonBackend()


def _entry_points() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=ENTRY_POINT_GROUP)}
