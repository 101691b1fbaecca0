"""Headers that become parameters of requests: their pattern, and what becomes of them."""

from collections.abc import Sequence

from charonia._wire import WireOptions
from charonia.core.errors import InvalidArgumentError
from charonia.core.request import Parameter
from charonia.core.text import shown

_RESERVED = frozenset(
    {"sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output"}
)
_RESERVED_PREFIX = "triton_"


def check_header_pattern(pattern: str, door: str) -> None:
    """Raises InvalidArgumentError, by the flag of "http" or "grpc", for a pattern that can't be read."""
    try:
        WireOptions(http_forward_pattern=pattern)
    except ValueError as error:
        raise InvalidArgumentError(f"--{door}-header-forward-pattern: {error}") from None


def with_headers(parameters: dict[str, Parameter], headers: Sequence[tuple[str, str]]) -> dict[str, Parameter]:
    """The request's parameters and, as text, the headers that go with it.

    A header counts more than a parameter of its name: who stands between a client and the server, and says who it is,
    sets headers. Of headers of one name the last counts.

    Raises:
        InvalidArgumentError: a header has the name of one of the server's own parameters.
    """
    if not headers:
        return parameters
    for name, _ in headers:
        if name in _RESERVED or name.startswith(_RESERVED_PREFIX):
            raise InvalidArgumentError(
                f"Header '{shown(name)}' is reserved for Triton usage and cannot be forwarded; "
                "the pattern of forwarded headers should leave it out"
            )
    return {**parameters, **dict(headers)}
