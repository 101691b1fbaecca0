"""`auto_complete_config`: whether a model may have one, the process that ran it, and what its answer changes."""

import json
import threading
from dataclasses import replace
from pathlib import Path

from charonia.backends.base import ModelContext
from charonia.backends.python.child.model_config import CONTRADICTS
from charonia.backends.python.child.wire import Frame
from charonia.backends.python.events import ModelEvents
from charonia.backends.python.launch import ModelFiles
from charonia.backends.python.process import ChildProcess
from charonia.backends.python.source import AUTO_COMPLETE, has_auto_complete, read_source
from charonia.backends.python.supervisor import Owner
from charonia.config.findings import ConfigError, Finding, Severity
from charonia.config.json_form import config_from_json
from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError

_KEPT_S = 60.0
_FIELDS = ("max_batch_size", "input", "output", "dynamic_batching", "model_transaction_policy")


def may_complete(model_file: Path) -> bool:
    """False when the file certainly has no auto_complete_config: then no process has to be started to ask it."""
    source = read_source(model_file)
    return isinstance(source, Finding) or has_auto_complete(source)


def apply_completion(context: ModelContext, completed_json: str) -> ModelConfig:
    """A new configuration with what the function may set.

    Raises:
        InvalidArgumentError: the function wrote something that is no configuration.
    """
    completed = json.loads(completed_json)
    chosen = {field: completed[field] for field in _FIELDS if completed.get(field) is not None}
    try:
        update = config_from_json(json.dumps(chosen)).config
    except ConfigError as error:
        # Nobody has seen this JSON: the fields' paths say more than lines and columns.
        wrong = ConfigError([replace(finding, place=None) for finding in error.findings])
        message = f"model '{context.name}': {AUTO_COMPLETE} returned a wrong configuration: {wrong}"
        raise InvalidArgumentError(message) from None
    config = ModelConfig()
    config.CopyFrom(context.config)
    for field in _FIELDS:
        config.ClearField(field)  # type: ignore[arg-type]
    config.MergeFrom(update)
    return config


def completion_error(context: ModelContext, failure: Exception) -> InvalidArgumentError:
    """Why `auto_complete_config` failed; where it contradicts the configuration, with the place of the field."""
    text = str(failure)
    if not text.startswith(CONTRADICTS):
        return InvalidArgumentError(f"model '{context.name}': {text}")
    path, _, message = text.removeprefix(CONTRADICTS).strip().partition(": ")
    message, _, remedy = message.partition("; ")
    where, _, reason = message.partition(": ")
    told = f"model '{context.name}': {reason}, in {where}" if where else f"model '{context.name}': {reason}"
    return ConfigError([Finding(Severity.ERROR, path, context.places.find(path), told, remedy)])


class Warm:
    """A process that has the model file loaded and waits for an instance to take it over (its `owner` then)."""

    def __init__(self, child: ChildProcess, files: ModelFiles, events: ModelEvents) -> None:
        self.child = child
        self.files = files
        self.events = events
        self.owner: Owner | None = None
        self._stamp = _stamp(files)

    @property
    def fresh(self) -> bool:
        """Whether it lives and has loaded what the file now holds."""
        return not self.child.exited.is_set() and self._stamp == _stamp(self.files)

    def on_event(self, child: ChildProcess, frame: Frame) -> None:
        if self.owner is not None:
            self.owner.on_event(child, frame)
        else:
            self.events.frame(child.outbox, frame)

    def on_quiet(self, child: ChildProcess) -> None:
        if self.owner is not None:
            self.owner.on_quiet(child)

    def on_exit(self, child: ChildProcess) -> None:
        if self.owner is not None:
            self.owner.on_exit(child)

    def end(self) -> None:
        self.child.kill()
        self.child.exited.wait()
        self.events.close()
        self.child.close()


class WarmProcesses:
    """At most one waiting process for each version folder, and none for long: the load may never come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Path, tuple[Warm, threading.Timer]] = {}

    def keep(self, warm: Warm) -> None:
        self.drop(warm.files)
        timer = threading.Timer(_KEPT_S, self.drop, (warm.files,))
        timer.daemon = True
        with self._lock:
            self._waiting[warm.files.version_dir] = (warm, timer)
        timer.start()

    def take(self, files: ModelFiles) -> Warm | None:
        """The waiting process for these files, if there is one that can be used. It is the caller's then."""
        warm = self._pop(files)
        if warm is None or warm.fresh:
            return warm
        warm.end()
        return None

    def drop(self, files: ModelFiles) -> None:
        warm = self._pop(files)
        if warm is not None:
            warm.end()

    def close(self) -> None:
        for warm, _ in list(self._waiting.values()):
            self.drop(warm.files)

    def _pop(self, files: ModelFiles) -> Warm | None:
        with self._lock:
            warm, timer = self._waiting.pop(files.version_dir, (None, None))
        if timer is not None:
            timer.cancel()
        return warm


def _stamp(files: ModelFiles) -> tuple[int, int]:
    stat = files.model_file.stat()
    return stat.st_mtime_ns, stat.st_size
