"""What the wire has to say, in the log: certificates that were renewed or can't be, handshakes that failed."""

from charonia._wire import WireServer
from charonia.core.log import Log
from charonia.core.protocols import OnDeath
from charonia.core.threads import SupervisedThread

_FOREVER_S = 86400.0


class WireRemarks:
    """A thread that waits for remarks until the wire is shut down.

    Args:
        on_death: told when it ends by an exception, which is a bug.
    """

    def __init__(self, wire: WireServer, log: Log, on_death: OnDeath) -> None:
        self._wire = wire
        self._log = log
        self._thread = SupervisedThread("wire-remarks", self._run, on_death)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """After the wire's shutdown."""
        self._thread.finish(timeout_s)

    def _run(self) -> None:
        say = {"error": self._log.error, "notice": self._log.info, "detail": self._log.verbose}
        while remarks := self._wire.take_remarks(_FOREVER_S):
            for weight, text in remarks:
                say[weight](text)
