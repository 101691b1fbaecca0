"""A log whose lines are kept."""

from charonia.observe.log import LogSettings, ServerLog


class KeptLines:
    """A sink that keeps what is written."""

    def __init__(self) -> None:
        self.text = ""
        self.lost = 0
        self.why = ""

    def write(self, data: bytes) -> bool:
        self.text += data.decode()
        return True

    def reopen(self) -> None: ...

    def close(self) -> None: ...

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def kept_log(**settings: object) -> tuple[ServerLog, KeptLines]:
    """A log with these LogSettings, and where its lines go."""
    lines = KeptLines()
    return ServerLog(LogSettings(**settings), lines), lines  # type: ignore[arg-type]
