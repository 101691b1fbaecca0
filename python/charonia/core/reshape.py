"""`reshape` of config.pbtxt: the same elements under other dims. The k-th open dim stays the k-th open dim."""

from collections.abc import Sequence


class Reshape:
    """Maps shapes that match `source` dims to `target` dims; a leading batch dimension is kept.

    Args:
        source, target: dims without the batch dimension, -1 for any size; both have the same number of -1.
        batched: whether shapes start with a batch dimension.
    """

    __slots__ = ("_batch_rank", "_open", "_target")

    def __init__(self, source: Sequence[int], target: Sequence[int], batched: bool) -> None:
        self._batch_rank = int(batched)
        self._open = [index + self._batch_rank for index, dim in enumerate(source) if dim == -1]
        self._target = tuple(target)

    def apply(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        sizes = iter([shape[index] for index in self._open])
        return shape[: self._batch_rank] + tuple(next(sizes, -1) if dim == -1 else dim for dim in self._target)
