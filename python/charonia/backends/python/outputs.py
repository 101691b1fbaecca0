"""Are a model's outputs what its configuration says? The same name, datatype and shape are looked at once.

A name, a datatype or a number of dimensions that differs is an error. Dims of other sizes, and dimensions of size 1
that are too many or missing, are told in the log and passed on, as in Triton, which looks at none of this: the answer
carries the real shape. Where a `reshape` counts on them they are an error too. An output without elements
(`np.array([])`, which is FP64) may have any datatype and any number of dimensions: nothing in it can be wrong.
"""

from collections.abc import Sequence

from charonia.backends.python.notes import OutputNotes
from charonia.backends.python.widening import may_convert
from charonia.config.io import OutputSpec
from charonia.core.tensor import Tensor

_MAX_KNOWN = 4096

Shape = tuple[int, ...]


class OutputCheck:
    """Made once for a model version; used by one instance thread each (it keeps what it found right).

    Args:
        outputs: as configured; none at all means that anything is right.
        batched: whether shapes start with a batch dimension.
        notes: of the whole model version; told of outputs that are converted, or of other dims.
        states: those that go to no client, and whose dims are checked where they are kept.

    Attributes:
        widenings: (name, datatype as returned) → datatype to convert it to, for what `problem` has let pass.
    """

    def __init__(
        self,
        model: str,
        outputs: Sequence[OutputSpec],
        batched: bool,
        notes: OutputNotes,
        states: Sequence[OutputSpec] = (),
    ) -> None:
        self._model = model
        self._expected = {
            spec.name: (spec.datatype, spec.dims if spec.reshape is None else spec.reshape)
            for spec in (*outputs, *states)
        }
        self._states = {spec.name for spec in states}
        self._reshaped = {spec.name for spec in outputs if spec.reshape is not None}
        self._batched = batched
        self._notes = notes
        self.widenings: dict[tuple[str, str], str] = {}
        self._known: set[tuple[str, str, Shape]] = set()

    def problem(self, name: str, datatype: str, shape: Shape) -> str | None:
        """What is wrong with an output, as a sentence; None if nothing is."""
        key = (name, datatype, shape)
        if key in self._known:
            return None
        text = self._find(name, datatype, shape)
        if text is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known.add(key)
        return text

    def misfit(self, outputs: Sequence[Tensor]) -> str | None:
        """What is wrong after outputs of `widenings` were converted: a value that the other datatype does not have."""
        for tensor in outputs:
            wanted = self.widenings.get((tensor.name, tensor.datatype))
            if wanted is not None:
                return (
                    f"model '{self._model}' returned output '{tensor.name}' with datatype {tensor.datatype}, its "
                    f"configuration says {wanted}, which does not have all of its values"
                )
        return None

    def _find(self, name: str, datatype: str, shape: Shape) -> str | None:
        if not self._expected:
            return None
        label = f"model '{self._model}' returned output '{name}'"
        expected = self._expected.get(name)
        if expected is None:
            return f"{label}, which its configuration does not have; it has {', '.join(self._expected)}"
        wanted, dims = expected
        differs, empty = bool(wanted) and datatype != wanted, 0 in shape
        if differs and not (empty or may_convert(datatype, wanted)):
            return f"{label} with datatype {datatype}, its configuration says {wanted}"
        full = (-1, *dims) if self._batched else dims
        if not _matches(shape, full):
            rest = shape[1:] if self._batched else shape
            close = len(shape) == len(full) or empty or (bool(shape) and _same_but_for_ones(rest, dims))
            if not close or name in self._reshaped:
                return f"{label} with shape {list(shape)}, its configuration says {list(full)}"
            if name not in self._states:
                self._notes.tell_shape(name, shape, full)
        if differs:
            self.widenings[name, datatype] = wanted
            self._notes.tell_datatype(name, datatype, wanted)
        return None


def _same_but_for_ones(shape: Shape, dims: Shape) -> bool:
    """Whether dimensions of size 1 are all that one has and the other has not."""
    if not shape or not dims:
        return all(size == 1 for size in shape) and all(dim in (-1, 1) for dim in dims)
    return (
        (dims[0] in (-1, shape[0]) and _same_but_for_ones(shape[1:], dims[1:]))
        or (shape[0] == 1 and _same_but_for_ones(shape[1:], dims))
        or (dims[0] in (-1, 1) and _same_but_for_ones(shape, dims[1:]))
    )


def _matches(shape: Shape, dims: Shape) -> bool:
    return len(shape) == len(dims) and all(dim in (-1, size) for dim, size in zip(dims, shape, strict=True))
