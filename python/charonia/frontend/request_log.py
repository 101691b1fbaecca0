"""What `--log-verbose=1` tells of each request and each answer: who, of what shape, how long. Never contents."""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from charonia.core.errors import Code
from charonia.core.log import Log
from charonia.core.request import ANY_VERSION, InferRequest, Reply
from charonia.core.tensor import Tensor
from charonia.core.text import shown

_MAX_TENSORS = 16


class RequestLog:
    """One line a request, one an answer; by the verbose level of the request's model.

    Names and ids are cut when they are long; that they can't forge a line is the log's care. An error's sentence is
    left out, since it may quote a value of the request.

    Args:
        now_ns: the clock of arrival stamps.
    """

    def __init__(self, log: Log, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._log = log
        self._now_ns = now_ns

    @property
    def on(self) -> bool:
        """Whether anything is written for any model. All that a request costs while it is off: ask once for many."""
        return self._log.highest_verbosity > 0

    def arrived(self, protocol: str, request: InferRequest) -> None:
        log = self._log.about(request.model_name)
        if log.highest_verbosity:
            version = "" if request.model_version == ANY_VERSION else str(request.model_version)
            inputs = _tensors(request.inputs.values(), len(request.inputs))
            log.verbose(f"{protocol} request {_who(request.id, request.model_name, version)}: inputs {inputs}")

    def refused(self, protocol: str, model: str, id: str, code: int, arrival_ns: int) -> None:
        """A request that was wrong in itself, so that there is nothing else to tell of it."""
        log = self._log.about(model)
        if log.highest_verbosity:
            log.verbose(f"{protocol} request {_who(id, model, '')}: {self._end(code, arrival_ns)}")

    def answered(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            request = reply.request
            log = self._log.about(request.model_name)
            if log.highest_verbosity:
                code = Code.OK if reply.error is None else reply.error.code
                who = _who(request.id, request.model_name, request.version)
                log.verbose(f"{_what(reply)} request {who}: {self._end(code, request.arrival_ns)}{_outputs(reply)}")

    def _end(self, code: int, arrival_ns: int) -> str:
        return f"{Code(code).name} after {(self._now_ns() - arrival_ns) // 1000} us"


def _what(reply: Reply) -> str:
    if not reply.has_response:
        return "end of the answers to"
    return "answer to" if reply.final else "one of the answers to"


def _outputs(reply: Reply) -> str:
    if reply.error is not None or not reply.has_response:
        return ""
    return f": outputs {_tensors(reply.outputs, len(reply.outputs))}"


def _who(id: str, model: str, version: str) -> str:
    return f"'{shown(id)}' to model '{shown(model)}'{f' version {version}' if version else ''}"


def _tensors(tensors: Iterable[Tensor], count: int) -> str:
    texts = [
        f"{shown(each.name)} {each.datatype} [{','.join(map(str, each.shape))}] {each.buffer.nbytes} bytes"
        for each in islice(tensors, _MAX_TENSORS)
    ]
    if count > _MAX_TENSORS:
        texts.append(f"and {count - _MAX_TENSORS} more")
    return ", ".join(texts)
