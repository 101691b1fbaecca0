"""One model of an embedded server: numpy in, numpy out."""

import asyncio
from collections.abc import Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from charonia.control.metadata import Metadata, ModelMetadata
from charonia.control.statistics import Statistics, StatisticsRecord
from charonia.core.clock import waitable_s
from charonia.core.correlation import unsigned
from charonia.core.datatypes import BYTES, DATATYPES
from charonia.core.errors import CharoniaError, InvalidArgumentError
from charonia.core.readiness import all_ready
from charonia.core.request import ANY_VERSION, NO_PARAMETERS, SEQUENCE_END, SEQUENCE_START, Parameter
from charonia.core.tensor import Tensor
from charonia.engine.inproc import InferOptions
from charonia.engine.inproc_answers import InferResult, ResponseStream, ResultFuture
from charonia.engine.model import ModelVersion
from charonia.server import Server as ServerParts

if TYPE_CHECKING:
    from charonia.api_sequence import Sequence as OneSequence
    from charonia.config.schema import ModelConfig

Array = NDArray[Any]
NO_INPUTS: Mapping[str, ArrayLike] = {}


class Answer(dict[str, Array]):
    """The outputs of one response: arrays by output name, yours to change. BYTES outputs are arrays of `bytes` objects.

    Attributes:
        parameters: what the model sent beside its outputs.
        model_version: the version that answered.
        request_id: as it was given.
    """

    def __init__(
        self, outputs: Mapping[str, Array], parameters: Mapping[str, Parameter], version: int, id: str
    ) -> None:
        super().__init__(outputs)
        self.parameters = parameters
        self.model_version = version
        self.request_id = id

    @classmethod
    def of(cls, result: InferResult) -> Self:
        arrays = {name: _writable(tensor.numpy()) for name, tensor in result.outputs.items()}
        return cls(arrays, result.parameters, int(result.model_version), result.id)


class Model:
    """One model of an embedded server. A handle without a version is on the one that serves by default at each call."""

    def __init__(self, parts: ServerParts, name: str, version: int) -> None:
        self._parts = parts
        self.name = name
        self._version = version

    def __repr__(self) -> str:
        version = "" if self._version == ANY_VERSION else f", version={self._version}"
        return f"Model({self.name!r}{version})"

    @property
    def loaded(self) -> ModelVersion:
        """The engine's record of the version that serves now. Raises NotFoundError once it is gone."""
        return self._parts.models.find(self.name, self._version)

    @property
    def version(self) -> int:
        """The version that serves now."""
        return self.loaded.version

    @property
    def ready(self) -> bool:
        """Waits for a model that tells its readiness itself, 5 seconds at most."""
        try:
            loaded = self.loaded
        except CharoniaError:
            return False
        return loaded.live_instances > 0 and all_ready(loaded.readiness_tellers)

    @property
    def metadata(self) -> ModelMetadata:
        """Names, datatypes and shapes of inputs and outputs, as the protocol shows them."""
        return Metadata(self._parts, lambda: self._parts.models).model(self.name, self._version)

    @property
    def config(self) -> "ModelConfig":
        """The completed configuration, a protobuf message. Treat it as read-only."""
        return self.loaded.config

    def statistics(self) -> StatisticsRecord:
        """What this version has counted since it was loaded."""
        (record,) = Statistics(lambda: self._parts.models).read(self.name, self.version)
        return record

    def infer(
        self,
        inputs: Mapping[str, ArrayLike] = NO_INPUTS,
        /,
        *,
        outputs: Sequence[str] = (),
        parameters: Mapping[str, Parameter] = NO_PARAMETERS,
        request_id: str = "",
        priority: int = 0,
        timeout_us: int = 0,
        sequence_id: int | str = 0,
        sequence_start: bool = False,
        sequence_end: bool = False,
        timeout_s: float | None = None,
        **arrays: ArrayLike,
    ) -> Answer:
        """Run one inference and wait for it.

        Args:
            inputs: arrays by input name, for names that are no Python identifiers; added to the keywords. An array
                has the batch dimension where the model batches. BYTES inputs are arrays of bytes or str.
            outputs: which outputs to give, all when empty.
            parameters: for the model, beside its inputs.
            request_id: what messages and the model know the request by.
            priority: 1 for the most urgent level of a model that has levels; 0 for its default.
            timeout_us: how long it may wait for an instance, in microseconds, where the model's queue policy allows
                requests to say so; 0 for what the policy says.
            sequence_id: of the sequence that it belongs to, a number or text; `sequence_start` and `sequence_end` mark
                the first and the last request of it. `sequence` does all that by itself.
            timeout_s: how long to wait for the answer; the request is cancelled then.

        Raises:
            CharoniaError: as a client would get it.
            TimeoutError: not done within `timeout_s`.
        """
        future = self.submit(
            inputs,
            outputs=outputs,
            parameters=parameters,
            request_id=request_id,
            priority=priority,
            timeout_us=timeout_us,
            sequence_id=sequence_id,
            sequence_start=sequence_start,
            sequence_end=sequence_end,
            **arrays,
        )
        return answer_within(future, timeout_s, self.name)

    async def infer_async(self, inputs: Mapping[str, ArrayLike] = NO_INPUTS, /, **more: Any) -> Answer:
        """As `infer` with its other arguments, but without blocking the event loop. Cancelling the task cancels the
        request."""
        return Answer.of(await asyncio.wrap_future(self.submit(inputs, **more)))

    def submit(self, inputs: Mapping[str, ArrayLike] = NO_INPUTS, /, **more: Any) -> ResultFuture:
        """Start one inference, with the other arguments of `infer`. The arrays must not change until the future is
        done; its `cancel` ends the request."""
        return self._parts.client.submit(self.name, *self._request(inputs, **more))

    def stream(
        self, inputs: Mapping[str, ArrayLike] = NO_INPUTS, /, *, timeout_s: float | None = None, **more: Any
    ) -> ResponseStream[Answer]:
        """Run one inference and take its responses as they come, from decoupled models and from any other.

            for answer in model.stream(PROMPT=[["Once"]]):
                print(answer["TOKEN"])

        `async for` does the same without blocking the event loop. The model waits while responses are unread; leaving
        the loop ends the request, and so does `cancel`. The arrays must not change until then.

        Args:
            timeout_s: how long to wait for each response; the request is cancelled then.
            more: the other arguments of `infer`.

        Raises (while iterating):
            CharoniaError: an error of the model, first or later; its responses before that were given.
            TimeoutError: no response within `timeout_s`.
        """
        tensors, options = self._request(inputs, **more)
        return self._parts.client.stream(self.name, tensors, Answer.of, options, timeout_s)

    def sequence(self, sequence_id: int | str | None = None) -> "OneSequence":
        """A sequence of requests, for a `with` block. Without an id it gets one of its own, a number below 2^63.

        with model.sequence() as sequence:
            for chunk in chunks:
                answer = sequence.infer(AUDIO=chunk)
        """
        from charonia.api_sequence import Sequence

        return Sequence(self, None if sequence_id is None else correlation_id(sequence_id))

    def _request(
        self,
        inputs: Mapping[str, ArrayLike],
        /,
        *,
        outputs: Sequence[str] = (),
        parameters: Mapping[str, Parameter] = NO_PARAMETERS,
        request_id: str = "",
        priority: int = 0,
        timeout_us: int = 0,
        sequence_id: int | str = 0,
        sequence_start: bool = False,
        sequence_end: bool = False,
        **arrays: ArrayLike,
    ) -> tuple[list[Tensor], InferOptions]:
        """What the arguments of `infer` say. Whatever is no option is an input."""
        datatypes = {spec.name: spec.datatype for spec in self.loaded.inputs}
        given = {**inputs, **arrays}
        tensors = [_tensor(name, array, datatypes.get(name, "")) for name, array in given.items()]
        id_, flags = correlation_id(sequence_id), _flags(sequence_start, sequence_end)
        options = InferOptions(self._version, request_id, outputs, parameters, priority, timeout_us, id_, flags)
        return tensors, options


def answer_within(future: ResultFuture, timeout_s: float | None, model: str) -> Answer:
    """The answer. Raises TimeoutError, and cancels the request, when there is none in time."""
    try:
        return Answer.of(future.result(None if timeout_s is None else waitable_s(timeout_s)))
    except TimeoutError:
        future.cancel()
        raise TimeoutError(f"model '{model}' gave no response within {timeout_s} s") from None


def correlation_id(value: Any) -> int | str:
    """As the wire gives it: text, or an unsigned number of 64 bits; numpy's numbers and texts too.

    Raises:
        InvalidArgumentError: it can't be the id of a sequence.
    """
    try:
        if isinstance(value, str):
            value.encode()
            return str(value)
        number = int(index(value))
    except (TypeError, UnicodeEncodeError):
        raise InvalidArgumentError(f"sequence_id must be a whole number or a text, got {value!r}") from None
    if not -(1 << 63) <= number < 1 << 64:
        raise InvalidArgumentError(f"sequence_id must be a number of 64 bits, got {number}")
    return unsigned(number)


def _flags(start: bool, end: bool) -> int:
    return (SEQUENCE_START if start else 0) | (SEQUENCE_END if end else 0)


def _writable(array: Array) -> Array:
    return array if array.flags.writeable else array.copy()


def _tensor(name: str, value: ArrayLike, datatype: str) -> Tensor:
    """Arrays keep their dtype, so that a wrong one is told; lists and numbers take the model's."""
    if isinstance(value, np.ndarray):
        return Tensor.from_numpy(name, value)
    known = DATATYPES.get(datatype)
    try:
        array = np.asarray(value, dtype=known.numpy if known is not None and datatype != BYTES else None)
        changed = array.dtype.kind in "iub" and not np.array_equal(array, np.asarray(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"input '{name}' can't be made {datatype or 'an array'}: {error}") from None
    if changed:
        raise InvalidArgumentError(f"input '{name}' can't be made {datatype}: some of its numbers would change")
    return Tensor.from_numpy(name, array)
