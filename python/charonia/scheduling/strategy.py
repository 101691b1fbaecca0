"""A user's batching strategy as the gate of `DynamicBatching`: asked once about each request, whatever it raises."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from charonia.core.batching import Request, Strategy
from charonia.core.log import Log
from charonia.core.request import InferRequest
from charonia.scheduling.forming import NOTHING, Decision, DynamicBatching, WaitingLine

_Answer = TypeVar("_Answer")
_FAILED = object()
"""In place of what `start_batch` gives, when it raised: nobody joins such a batch."""


class StrategyBatching(DynamicBatching):
    """Batches as `rule` forms them, of requests that the strategy has join."""

    def __init__(self, rule: DynamicBatching, strategy: Strategy, model: str, log: Log) -> None:
        super().__init__(rule.max_rows, tuple(rule.preferred), rule.delay_ns // 1000)
        self._gate = StrategyGate(strategy, model, log)
        self.gate = self._gate

    def decide(self, queue: WaitingLine, now_ns: int) -> Decision:
        self._gate.begin()
        decision = super().decide(queue, now_ns)
        if decision is NOTHING:
            self._gate.release()
        return decision

    def taken(self, batch: Sequence[InferRequest], now_ns: int) -> None:
        """See `forming.AttentiveRule`."""
        self._gate.release()


class StrategyGate:
    """See `forming.Gate`. A batch that still grows is looked at again and again; the strategy hears of each request
    once, unless one that it has counted is gone."""

    def __init__(self, strategy: Strategy, model: str, log: Log) -> None:
        self._strategy = strategy
        self._model = model
        self._log = log
        self._told: set[str] = set()
        self._is_open = False  # a batch is started
        self._batch: Any = None
        self._joined: list[InferRequest] = []
        self._at = 0

    def begin(self) -> None:
        """The rule looks at those that wait, from the first on."""
        self._at = 0

    def admits(self, request: InferRequest) -> bool:
        at = self._at
        if at < len(self._joined):
            if self._joined[at] is request:
                self._at += 1
                return True
            self._start_anew(at)
        if not self._is_open:
            self._is_open = True
            self._batch = self._ask("start_batch", self._strategy.start_batch, _FAILED)
        joins = self._batch is not _FAILED and self._ask("may_join", lambda: self._may_join(request), False)
        if joins or not at:
            self._joined.append(request)
            self._at += 1
        return joins

    def _may_join(self, request: InferRequest) -> bool:
        return bool(self._strategy.may_join(self._batch, Request(request)))

    def release(self) -> None:
        """The batch leaves the queue, or nobody waits."""
        if self._is_open:
            batch, self._batch, self._is_open = self._batch, None, False
            if batch is not _FAILED:
                self._ask("finish_batch", lambda: self._strategy.finish_batch(batch), None)
        self._joined = []

    def _start_anew(self, kept: int) -> None:
        """A request that had joined is gone: count those before it again."""
        joined = self._joined[:kept]
        self.release()
        self._at = 0
        for request in joined:
            self.admits(request)

    def _ask(self, hook: str, call: Callable[[], _Answer], otherwise: _Answer) -> _Answer:
        try:
            return call()
        except BaseException as error:  # whatever it is, it would end the thread of an instance
            if hook not in self._told:
                self._told.add(hook)
                self._log.error(
                    f"model '{self._model}': {hook} of its batching strategy failed, and the batch went with what it "
                    f"had: {type(error).__name__}: {error}"
                )
            return otherwise
