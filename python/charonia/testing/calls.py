"""Control calls as the wire would give them, answered into memory."""

from dataclasses import dataclass, field
from itertools import count


@dataclass
class FakeHttpCall:
    """Quacks like `charonia._wire.HttpCall`. After `leave`, the client is gone; while `is_behind`, it has no room."""

    method: str = "GET"
    path: str = "/"
    query: str = ""
    body: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    listener: str = "http"
    http_version: str = "1.1"
    client: tuple[str, int] | None = None
    secure: bool = False
    forwarded: tuple[tuple[str, str], ...] = ()
    is_disconnected: bool = False
    key: int = field(default_factory=count(1).__next__)
    is_behind: bool = False
    begun_ns: int = 0
    arrival_ns: int = 0
    status: int = 0
    answer_headers: dict[str, str] = field(default_factory=dict)
    chunks: list[tuple[bytes, bool]] = field(default_factory=list)

    def header(self, name: str) -> str | None:
        return next((value.decode() for known, value in self.headers if known == name.encode()), None)

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        assert not self.status, "the head is sent twice"
        self.status = status
        self.answer_headers = {name.decode(): value.decode() for name, value in headers}

    def write(self, chunk: bytes, more: bool) -> bool:
        assert self.status, "a body without a head"
        assert not self.ended, "a body after its end"
        if self.is_disconnected:
            return False
        self.chunks.append((chunk, more))
        return True

    def leave(self) -> None:
        self.is_disconnected = True

    @property
    def has_room(self) -> bool:
        return self.is_disconnected or not self.is_behind

    @property
    def ended(self) -> bool:
        return bool(self.chunks) and not self.chunks[-1][1]

    @property
    def answer(self) -> bytes:
        return b"".join(chunk for chunk, _ in self.chunks)


@dataclass
class FakeRpcCall:
    """Quacks like `charonia._wire.RpcCall`: `response` or `failure` is set by the answer."""

    path: str
    message: bytes = b""
    metadata: list[tuple[str, str]] = field(default_factory=list)
    is_cancelled: bool = False
    response: bytes | None = None
    failure: tuple[int, str] | None = None

    def reply(self, message: bytes) -> None:
        assert not self.answered, "answered twice"
        self.response = message

    def fail(self, code: int, message: str) -> None:
        assert not self.answered, "answered twice"
        self.failure = (code, message)

    @property
    def answered(self) -> bool:
        return self.response is not None or self.failure is not None
