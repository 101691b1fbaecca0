"""Addresses of repositories in clouds, as Triton writes them.

s3://bucket/path                         Amazon S3
s3://host:port/bucket/path               a server that speaks S3, over HTTP; also s3://http://host:port/…
s3://https://host:port/bucket/path       the same over HTTPS
gs://bucket/path                         Google Cloud Storage
as://account/container/path              Azure Storage; also as://account.blob.core.windows.net/…
"""

import re
from dataclasses import dataclass, field

from charonia.core.errors import InvalidArgumentError

KINDS = ("s3", "gs", "as")
_AZURE_HOST = ".blob.core.windows.net"
_HOST = r"(?:[0-9a-zA-Z.-]+|\[[0-9a-fA-F:]+\])"
# Without http:// only a port tells a host from a bucket; buckets have no colon.
_SERVER = re.compile(rf"(?:(?P<scheme>https?)://+(?P<host>{_HOST}(?::\d+)?)|(?P<bare>{_HOST}:\d+))(?:/|$)")


@dataclass(frozen=True, slots=True)
class CloudAddress:
    """One repository.

    Attributes:
        kind: "s3", "gs" or "as".
        endpoint: the server as a URL; "" for the one that the provider has for everybody.
        account: of Azure Storage, else "".
        bucket: or container.
        path: within the bucket, without slashes around; "" for all of it.
        written: as the user has written it, without slashes at its end.
    """

    kind: str
    endpoint: str
    account: str
    bucket: str
    path: str
    written: str = field(compare=False)

    @property
    def url(self) -> str:
        """The address, written in one way: two that are equal are one repository."""
        where = self.endpoint or self.account
        return f"{self.kind}://{'/'.join(part for part in (where, self.bucket, self.path) if part)}"

    @property
    def host(self) -> str:
        """Who is asked."""
        if self.endpoint:
            return self.endpoint.partition("://")[2]
        if self.kind == "as":
            return self.account + _AZURE_HOST
        return "Amazon S3" if self.kind == "s3" else "Google Cloud Storage"


def is_cloud_address(repository: str) -> bool:
    """Whether it is a URL and no path."""
    return "://" in repository


def parse_cloud_address(text: str) -> CloudAddress:
    """
    Raises:
        InvalidArgumentError: another kind of URL, no bucket, or parts that an address can't have.
    """
    kind, _, rest = text.partition("://")
    if kind not in KINDS:
        raise _wrong(shown_address(text), "a repository is a folder, or begins with s3://, gs:// or as://")
    if "?" in rest or "#" in rest:
        raise _wrong(shown_address(text), "an address has no query; credentials come from the environment or a file")
    if "@" in rest:
        raise _wrong(shown_address(text), "credentials don't stand in an address but in the environment or a file")
    endpoint = account = ""
    if kind == "s3" and (server := _SERVER.match(rest)):
        endpoint = f"{server['scheme'] or 'http'}://{server['host'] or server['bare']}"
        rest = rest[server.end() :]
    parts = [part for part in rest.split("/") if part]
    if kind == "as" and parts:
        account = parts.pop(0).removesuffix(_AZURE_HOST)
    if not parts:
        what = "container" if kind == "as" else "bucket"
        example = "as://account/container/models" if kind == "as" else f"{kind}://bucket/models"
        raise _wrong(text, f"it has no {what}; expected one such as {example}")
    if any(part in (".", "..") or not part.isprintable() for part in parts) or ":" in parts[0]:
        raise _wrong(text, f"'{'/'.join(parts)}' is no bucket with a path")
    return CloudAddress(kind, endpoint, account, parts[0], "/".join(parts[1:]), text.rstrip("/"))


def shown_address(text: str) -> str:
    """What of an address may be shown: not what stands where signatures and passwords do."""
    plain = re.split(r"[?#]", text, maxsplit=1)[0]
    scheme, separator, rest = plain.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _wrong(shown: str, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"--model-repository={shown} is no address of a repository: {reason}")
