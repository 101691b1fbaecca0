"""Events of a model's queue and of its readiness, so that tests wait for what happened instead of for a while."""

import queue
import threading

from tests.models.gated import PATIENCE_S


class WatchedQueue:
    """Reports each request that is queued, and each that is refused while it waits.

    Args:
        model: a handle of the in-process API.
    """

    def __init__(self, model) -> None:
        self._events = queue.Queue()
        scheduler = model.loaded.scheduler
        self._enqueue, self._refused = scheduler.enqueue, scheduler._on_refused
        scheduler.enqueue, scheduler._on_refused = self._on_enqueue, self._on_refused

    def _on_enqueue(self, request):
        self._enqueue(request)
        self._events.put(("queued", request))

    def _on_refused(self, request, error):
        self._refused(request, error)
        self._events.put(("refused", error))

    def wait_queued(self, count=1):
        for _ in range(count):
            kind, what = self._events.get(timeout=PATIENCE_S)
            assert kind == "queued", what

    def wait_refused(self):
        """The error that the next refused request got."""
        while True:
            kind, what = self._events.get(timeout=PATIENCE_S)
            if kind == "refused":
                return what


class WatchedReadiness:
    """What the doors were told last about a model: health questions over the network are answered from it."""

    def __init__(self, server, name):
        self._name = name
        self._events = queue.Queue()
        doors = server._parts._doors
        self._publish = doors.publish
        doors.publish = self._on_publish

    def _on_publish(self, live, ready, models, *more):
        self._publish(live, ready, models, *more)
        self._events.put(models[self._name, ""][0])

    def wait(self, is_ready):
        while self._events.get(timeout=PATIENCE_S) is not is_ready:
            pass


class WatchedSequences:
    """How many sequences of a model live, as its scheduler tells after each change.

    Args:
        model: a handle of the in-process API.
    """

    def __init__(self, model) -> None:
        self._scheduler = model.loaded.scheduler
        self._changed = threading.Condition()
        self._tell = self._scheduler._tell
        self._scheduler._tell = self._on_change

    def _on_change(self):
        self._tell()
        with self._changed:
            self._changed.notify_all()

    def wait_for_none(self):
        with self._changed:
            assert self._changed.wait_for(lambda: not self._scheduler.sequence_count, PATIENCE_S)
