"""The agent `checksum`: a model is loaded only if its files have the digests that its configuration names.

model_repository_agents { agents {
  name: "checksum"
  parameters { key: "MD5:1/model.onnx" value: "5eb63bbbe01eeed093cb22bb8f5acdc3" }
} }
"""

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from charonia.agents.base import AgentModel, RepositoryAgent
from charonia.core.errors import InvalidArgumentError, UnsupportedError
from charonia.core.text import shown

ALGORITHMS = {"md5": "MD5", "sha256": "SHA256", "sha512": "SHA512"}
"""By their names in hashlib. MD5 is Triton's; it tells broken files, and no longer those that were forged."""


@dataclass(frozen=True, slots=True)
class ExpectedDigest:
    """One parameter: the digest that a file must have, in hexadecimal digits.

    Attributes:
        algorithm: as hashlib names it; file: relative to the model's folder.
    """

    algorithm: str
    file: str
    digest: str

    @classmethod
    def parse(cls, key: str, value: str) -> "ExpectedDigest":
        """
        Raises:
            InvalidArgumentError: a key that is not ALGORITHM:FILE.
            UnsupportedError: an algorithm that there is not.
        """
        algorithm, colon, file = key.partition(":")
        if not colon or not file:
            raise InvalidArgumentError(
                f"failed to parse key: the parameter '{shown(key)}' of agent 'checksum' names no file; expected "
                "ALGORITHM:FILE, as 'SHA256:1/model.onnx'"
            )
        if algorithm.lower() not in ALGORITHMS:
            raise UnsupportedError(
                f"Unsupported checksum algorithm: '{shown(algorithm)}' in the parameter '{shown(key)}' of agent "
                f"'checksum'; there are {', '.join(ALGORITHMS.values())}"
            )
        return cls(algorithm.lower(), file, value.strip())

    def check(self, folder: Path) -> None:
        """
        Raises:
            InvalidArgumentError: the file can't be read, is outside of the folder, or has another digest.
        """
        got = self._digest_of(self.path_in(folder))
        if not hmac.compare_digest(got.encode(), self.digest.lower().encode()):
            raise InvalidArgumentError(
                f"Mismatched {ALGORITHMS[self.algorithm]} hash for file {self.file}, expect: {self.digest}, got: {got}"
            )

    def path_in(self, folder: Path) -> Path:
        """Raises InvalidArgumentError for a path that leads out of the folder."""
        normal = os.path.normpath(self.file)
        if os.path.isabs(normal) or normal.split(os.sep)[0] == os.pardir:
            raise InvalidArgumentError(
                f"agent 'checksum' can't check the file '{shown(self.file)}': expected a path in the model's folder"
            )
        return folder / normal

    def _digest_of(self, path: Path) -> str:
        try:
            with path.open("rb") as file:
                return hashlib.file_digest(file, self._new).hexdigest()
        except OSError as error:
            raise InvalidArgumentError(
                f"agent 'checksum' can't read the file {self.file}, whose {ALGORITHMS[self.algorithm]} hash is to be "
                f"{self.digest}: {error.strerror or error}"
            ) from None

    def _new(self) -> "hashlib._Hash":
        # Where a machine allows no weak algorithms for security, MD5 is still good enough against broken files.
        return hashlib.new(self.algorithm, usedforsecurity=self.algorithm != "md5")


class ChecksumAgent(RepositoryAgent):
    """Refuses a load when a file is not what was expected. The first one that is found is told."""

    def load(self, model: AgentModel) -> None:
        for expected in expected_digests(model.parameters):
            expected.check(model.location)


def expected_digests(parameters: Mapping[str, str]) -> list[ExpectedDigest]:
    """All of an agent's parameters, by name. Raises as `ExpectedDigest.parse`."""
    return [ExpectedDigest.parse(key, value) for key, value in sorted(parameters.items())]
