"""What a model is, for a response cache that several servers share: the same for the same model, wherever and whenever
it is loaded."""

import os
from hashlib import blake2b
from typing import TYPE_CHECKING

from charonia.repository.fingerprint import Fingerprint, files_of_version, fingerprint
from charonia.repository.source import model_part

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

_CHUNK_BYTES = 1 << 20
_FORMAT = b"1"  # of keys and entries: another one when either comes to mean something else


class IdentifiedModel:
    """A model version that is about to be loaded. Reads all of its files.

    Args:
        config: as completed.
        folder: the model's, None for one without files.

    Attributes:
        identity: a digest of name, version, configuration, and the contents of all files that the version may use. Not
            in it: how many instances there are, the times of files, and code outside of the folder. None where a file
            can't be read.
    """

    def __init__(
        self, name: str, version: int, config: "ModelConfig", folder: str | os.PathLike[str] | None = None
    ) -> None:
        self._folder = folder
        self._version = version
        self._seen = fingerprint(folder) if folder is not None else Fingerprint()
        digest = blake2b(digest_size=16)
        # As a map may come in any order, and a configuration has maps.
        part = model_part(config).SerializeToString(deterministic=True)
        for text in (_FORMAT, name.encode(errors="surrogatepass"), str(version).encode(), part):
            _add(digest, text)
        self.identity: bytes | None
        try:
            if folder is not None:
                _add_files(digest, folder, version)
            self.identity = digest.digest()
        except OSError:
            self.identity = None

    def has_changed(self) -> bool:
        """Whether nobody knows what was loaded, because its files have changed meanwhile."""
        return self._folder is not None and not fingerprint(self._folder).same_version(self._seen, self._version)


def _add_files(digest: blake2b, folder: str | os.PathLike[str], version: int) -> None:
    for name, path in files_of_version(folder, version):
        _add(digest, name)
        digest.update(_content(path))


def _add(digest: blake2b, text: bytes) -> None:
    """With its length, so that no two different texts one after the other make the same bytes."""
    digest.update(b"%d:" % len(text))
    digest.update(text)


def _content(path: str) -> bytes:
    digest = blake2b(digest_size=16)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.digest()
