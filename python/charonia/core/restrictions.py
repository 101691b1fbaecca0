"""Categories of calls that may need a secret, and the settings that say so: `<categories>:<key>=<secret>`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from charonia.core.errors import InvalidArgumentError

CATEGORIES = (
    "health",
    "metadata",
    "inference",
    "shared-memory",
    "model-config",
    "model-repository",
    "statistics",
    "trace",
    "logging",
)

GRPC_PREFIX = "triton-grpc-protocol-"
"""What the key of a gRPC restriction is called on the wire begins so."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET = re.compile(r"[!-~]([ -~]*[!-~])?")


@dataclass(frozen=True, slots=True)
class Key:
    """The header that opens a category, as clients are told its name. The secret is never shown."""

    header: str
    secret: str = field(repr=False)


def read_restrictions(given: Sequence[str], flag: str, prefix: str = "") -> Mapping[str, Key]:
    """The key of each category that has one.

    Args:
        flag: its name, for messages; they show no secret.
        prefix: of the header's name.

    Raises:
        InvalidArgumentError: a setting that is none, an unknown category, one that is there twice, or a header that no
            client can send.
    """
    keys: dict[str, Key] = {}
    for text in given:
        categories, colon, rest = text.partition(":")
        name, equals, secret = rest.partition("=")
        if not (categories and colon and name and equals and secret):
            shown = f"{categories}:{name}={'...' if secret else ''}" if equals else categories + colon
            raise InvalidArgumentError(f"--{flag}: expected <categories>:<key>=<value>, got '{shown}'")
        _check_header(prefix + name, secret, flag)
        for category in categories.split(","):
            _check_category(category, keys, flag)
            keys[category] = Key(prefix + name, secret)
    return keys


def _check_category(category: str, known: Mapping[str, Key], flag: str) -> None:
    what = flag.rpartition("-")[2]  # "api" or "protocol": scripts look for these words
    if category not in CATEGORIES:
        known_ones = ", ".join(CATEGORIES)
        raise InvalidArgumentError(f"--{flag}: unknown restricted {what} '{category}'; known are {known_ones}")
    if category in known:
        raise InvalidArgumentError(
            f"--{flag}: restricted {what} '{category}' can not be specified in multiple config groups"
        )


def _check_header(header: str, secret: str, flag: str) -> None:
    if not _HEADER_NAME.fullmatch(header):
        raise InvalidArgumentError(f"--{flag}: '{header}' can't be the name of a header")
    if header.lower().endswith("-bin") and header.startswith(GRPC_PREFIX):
        raise InvalidArgumentError(f"--{flag}: '{header}' would be binary metadata, which is sent encoded")
    if not _SECRET.fullmatch(secret):
        raise InvalidArgumentError(
            f"--{flag}: the value of '{header}' must be printable ASCII without spaces at its ends, as headers are"
        )
