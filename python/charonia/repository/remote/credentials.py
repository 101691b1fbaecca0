"""Credentials of object stores: from the environment, or from the file that TRITON_CLOUD_CREDENTIAL_PATH names."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from charonia.core.cloud_address import CloudAddress
from charonia.core.errors import InvalidArgumentError

FILE_VARIABLE = "TRITON_CLOUD_CREDENTIAL_PATH"

# By kind: the names in the file, each with the variables of the environment that stand for it.
_NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "s3": {
        "secret_key": ("AWS_SECRET_ACCESS_KEY",),
        "key_id": ("AWS_ACCESS_KEY_ID",),
        "region": ("AWS_DEFAULT_REGION", "AWS_REGION"),
        "session_token": ("AWS_SESSION_TOKEN",),
        "profile": ("AWS_PROFILE",),
    },
    "gs": {"path": ("GOOGLE_APPLICATION_CREDENTIALS",)},
    "as": {
        "account_str": ("AZURE_STORAGE_ACCOUNT",),
        "account_key": ("AZURE_STORAGE_KEY",),
        "auth_type": ("AZURE_STORAGE_AUTH_TYPE",),
        "client_id": ("AZURE_STORAGE_CLIENT_ID",),
    },
}
_SECRET = ("secret_key", "session_token", "account_key", "key_id")
# Shorter ones hide nothing, and taking them out of a text would make it unreadable.
_LEAST_SECRET_CHARACTERS = 4


@dataclass(frozen=True, slots=True)
class Credentials:
    """For one repository.

    Attributes:
        source: where they come from, for messages; never what they are.
        values: by their names in Triton's file; without those that are empty.
    """

    source: str
    values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def get(self, name: str) -> str:
        """ "" for what is not given."""
        return self.values.get(name, "")

    @property
    def has_keys(self) -> bool:
        """Whether keys themselves are given, and not only where the library finds them."""
        return any(self.get(name) for name in _SECRET)

    def redacted(self, text: str) -> str:
        """Without anything secret."""
        for name in _SECRET:
            value = self.get(name)
            if len(value) >= _LEAST_SECRET_CHARACTERS:
                text = text.replace(value, "***")
        return text


def credentials_for(address: CloudAddress, environment: Mapping[str, str]) -> Credentials:
    """Of a file that has them by the beginnings of addresses, as they are written or in full; else of the environment.

    Raises:
        InvalidArgumentError: the file can't be read, is none, or has nothing for this address.
    """
    path = environment.get(FILE_VARIABLE, "")
    if path:
        return _from_file(path, address)
    return _from_environment(address.kind, environment)


def _from_environment(kind: str, environment: Mapping[str, str]) -> Credentials:
    values: dict[str, str] = {}
    used: list[str] = []
    for name, variables in _NAMES[kind].items():
        found = next((each for each in variables if environment.get(each)), None)
        if found is not None:
            values[name] = environment[found]
            used.append(found)
    default = {"s3": "the AWS configuration", "gs": "the default of Google Cloud", "as": "none: anonymous"}[kind]
    return Credentials(", ".join(used) or default, values)


def _from_file(path: str, address: CloudAddress) -> Credentials:
    by_name = _read(path).get(address.kind, {})
    if not isinstance(by_name, dict):
        raise _wrong(path, f"'{address.kind}' must be an object of credentials by the beginning of addresses")
    forms = (f"{address.written}/", f"{address.url}/")
    matching = [name for name in by_name if any(form.startswith(name) for form in forms)]
    if not matching:
        raise _wrong(
            path, f"'{address.kind}' has no credentials for {address.written}; the name \"\" is for all others"
        )
    name = max(matching, key=len)
    return Credentials(f"'{address.kind}', '{name}' of {path}", _values(path, address.kind, name, by_name[name]))


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise _wrong(path, error.strerror or type(error).__name__) from None
    except ValueError as error:  # its text may show what stands around
        where = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise _wrong(path, f"it is no JSON{where}") from None
    if not isinstance(content, dict):
        raise _wrong(path, 'it must be an object with "s3", "gs" or "as"')
    return content


def _values(path: str, kind: str, name: str, given: Any) -> Mapping[str, str]:
    if kind == "gs":
        given = {"path": given}
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        what = "the path of a file" if kind == "gs" else f"an object of texts: {', '.join(_NAMES[kind])}"
        raise _wrong(path, f"'{name}' of '{kind}' must be {what}")
    return {key: value for key, value in given.items() if value and key in _NAMES[kind]}


def _wrong(path: str, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"the file of cloud credentials '{path}' ({FILE_VARIABLE}) can't be used: {reason}")
