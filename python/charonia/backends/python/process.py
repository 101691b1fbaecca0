"""One process of a model: spawned, talked to, ended."""

import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from charonia.backends.python.child import wire
from charonia.backends.python.child.arena import Arena, Region
from charonia.backends.python.memory import shared_file
from charonia.backends.python.open_requests import CANCEL_SLOTS
from charonia.backends.python.outbox import Outbox
from charonia.backends.python.work_channel import WorkChannel

_CHILD = str(Path(__file__).parent / "child")
_EXIT_WAIT_S = 2.0


class ChildFailed(Exception):
    """The process answered a control frame with a failure: the text is the model's."""


class Patience:
    """Waiting without an end that says so now and then: `on_slow` gets the seconds waited, after each `every_s`."""

    def __init__(self, every_s: float, on_slow: Callable[[float], None]) -> None:
        self._every_s = every_s
        self._on_slow = on_slow

    def wait(self, fd: int) -> None:
        began = time.monotonic()
        while not _readable(fd, self._every_s):
            self._on_slow(time.monotonic() - began)


class ChildProcess:
    """A model's process and both channels to it. `exited` is set by the supervisor once its status is known.

    `outbox` is how frames are sent on the events channel.

    Args:
        name: the instance's name, for messages.
        interpreter: the Python to run; `environment` its variables.
    """

    def __init__(self, name: str, interpreter: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self.exited = threading.Event()
        self._closing = threading.Lock()
        work, work_child = socket.socketpair()
        events, events_child = socket.socketpair()
        self._files = [shared_file(f"charonia {what}") for what in ("inputs", "outputs", "replies")]
        inputs, outputs, replies = self._files
        self.inputs = Arena(inputs, CANCEL_SLOTS)
        self.outputs = Region(outputs)
        self.replies = Arena(replies)
        passed = (work_child.fileno(), events_child.fileno(), *self._files)
        try:
            self.popen = subprocess.Popen(
                [interpreter, _CHILD, *map(str, passed)],
                stdin=subprocess.DEVNULL,
                env=environment,
                pass_fds=passed,
                start_new_session=True,
            )
        except OSError:
            for fd in self._files:
                os.close(fd)
            work.close()
            events.close()
            raise
        finally:
            work_child.close()
            events_child.close()
        self.work = WorkChannel(work)
        self.events = wire.Channel(events)
        self.outbox = Outbox(self.events, self.kill)

    def ask(self, kind: int, *arguments: Any, patience: "Patience | None" = None) -> Any:
        """Send a control frame and wait for its answer, as long as it takes.

        Raises:
            ChildFailed: the model's code failed.
            LinkClosed: the process has ended or was ended.
        """
        self.work.send(kind, 0, arguments)
        if patience is not None:
            patience.wait(self.work.fileno())
        frame = self.work.receive()
        if frame.kind == wire.FAILED:
            raise ChildFailed(frame.meta)
        return frame.meta

    def finish(self, timeout_s: float) -> str | None:
        """Have the model finalize and the process end; kill it after `timeout_s`. What went wrong, None if nothing."""
        problem = None
        try:
            self.work.send(wire.FINALIZE, 0, ())
            if _readable(self.work.fileno(), timeout_s):
                frame = self.work.receive()
                problem = frame.meta if frame.kind == wire.FAILED else None
            else:
                problem = f"finalize has not returned within {timeout_s:g} s; the process is killed"
                self.kill()
        except wire.LinkClosed:
            problem = self.death()
        if not self.exited.wait(_EXIT_WAIT_S):
            self.kill()
            self.exited.wait(_EXIT_WAIT_S)
        return problem

    def kill(self) -> None:
        """End the process at once, from any thread; whoever waits for it gets LinkClosed."""
        if self.popen.returncode is None:  # not Popen.kill: it may collect the status, which is the supervisor's to do
            self.kill_group()
        self.work.shutdown()

    def kill_group(self) -> None:
        """End the processes that the model started as well. Only while this one has not been waited for."""
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except OSError:
            pass

    def death(self) -> str:
        """How the process ended, waiting for it a moment: it may still be dying when its link has closed."""
        if not self.exited.wait(_EXIT_WAIT_S):
            self.kill()
            self.exited.wait(_EXIT_WAIT_S)
        return describe_exit(self.popen.returncode)

    def close(self) -> None:
        """Free descriptors, and what the process was lent. Memory that lent outputs still use stays mapped until they
        have gone."""
        with self._closing:
            files, self._files = self._files, []
        self.outbox.close()
        self.work.close()
        self.events.close()
        self.inputs.drop_kept()
        self.replies.drop_kept()
        for region in (self.inputs.region, self.outputs, self.replies.region):
            region.close()
        for fd in files:
            os.close(fd)


def describe_exit(returncode: int | None) -> str:
    """`was killed by signal 9 (SIGKILL)`, `exited with code 3`."""
    if returncode is None:
        return "does not answer any more"
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = "unknown"
    return f"was killed by signal {-returncode} ({name})"


def _readable(fd: int, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))
