"""Batches of limited size in bytes: rows say little where one request may be a thousand times as large as another."""

from charonia.batching import Model, Request


class Batch:
    """What is known of the batch that is being formed."""

    def __init__(self, room: int) -> None:
        self.room = room  # bytes that still fit


class BatchingStrategy:
    """Lets requests join as long as their bytes fit. A request that is larger than a whole batch goes alone."""

    def __init__(self, model: Model) -> None:
        self._max_bytes = int(model.parameters["max_batch_bytes"])

    def start_batch(self) -> Batch:
        return Batch(self._max_bytes)

    def may_join(self, batch: Batch, request: Request) -> bool:
        batch.room -= request.byte_size
        return batch.room >= 0

    def finish_batch(self, batch: Batch) -> None:
        """Nothing is held."""
