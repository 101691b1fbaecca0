"""What the log is told once of outputs that differ from the configuration and are answered all the same."""

import threading
from collections.abc import Sequence

from charonia.core.log import Log


class OutputNotes:
    """Tells of each output of a loaded model once, whichever instance meets it first."""

    def __init__(self, model: str, log: Log) -> None:
        self._model = model
        self._log = log
        self._lock = threading.Lock()
        self._told: set[tuple[str, str]] = set()

    def tell_datatype(self, output: str, datatype: str, wanted: str) -> None:
        """It is converted from `datatype` to `wanted`."""
        self._tell(
            "datatype",
            output,
            f"with datatype {datatype}, its configuration says {wanted}: it is converted each time; return {wanted}, "
            "or change data_type in the configuration",
        )

    def tell_shape(self, output: str, shape: Sequence[int], wanted: Sequence[int]) -> None:
        """It is passed on as it is."""
        self._tell(
            "shape",
            output,
            f"with shape {list(shape)}, its configuration says {list(wanted)}: clients get it as it is; "
            "change dims in the configuration (-1 for a size that varies)",
        )

    def _tell(self, subject: str, output: str, how: str) -> None:
        with self._lock:
            if (subject, output) in self._told:
                return
            self._told.add((subject, output))
        self._log.warning(f"model '{self._model}' returns output '{output}' {how}")
