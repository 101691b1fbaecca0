"""Where the identity of a door under TLS lies."""

from dataclasses import dataclass

from charonia.core.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of files in PEM. `client_roots` has who may have signed the certificates that clients must show; None when
    clients need none."""

    certificate: str
    key: str
    client_roots: str | None


def tls_files(door: str, mutual: bool, certificate: str, key: str, roots: str, why: str) -> TlsFiles:
    """What the flags of a door say.

    Args:
        door: whose flags these are, "http" or "grpc".
        why: the flag that asks for TLS.

    Raises:
        InvalidArgumentError: a file is missing; names the flag that gives it.
    """
    for what, path, needed in (
        ("server-cert", certificate, True),
        ("server-key", key, True),
        ("root-cert", roots, mutual),
    ):
        if needed and not path:
            raise InvalidArgumentError(f"--{why} needs --{door}-{what}: a file in PEM")
    return TlsFiles(certificate, key, roots if mutual else None)
