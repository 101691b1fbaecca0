"""Ports for programs that must be told one."""

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on at this moment."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
