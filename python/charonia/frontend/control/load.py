"""The parameters of load and unload requests, from a JSON body and from a message.

A file's content is base64 in JSON and bytes in a message; everything else is the same. Load refuses a parameter that it
does not know, since a model loaded without it would be another one; unload passes over it.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from charonia.config import service_schema as schema
from charonia.core.errors import InvalidArgumentError
from charonia.core.overrides import LoadOverrides
from charonia.core.text import shown
from charonia.frontend.control.body import MAX_BYTES, Kind, is_kind, kind_of, parse_object

CONFIG = "config"
FILE_PREFIX = "file:"
DEPENDENTS = "unload_dependents"

_PARAMETERS = {"parameters": Kind.OBJECT}
# What `base64` and email libraries put between lines.
_LINE_BREAKS = str.maketrans("", "", "\r\n")


def overrides_of_body(body: bytes) -> LoadOverrides:
    """Raises InvalidArgumentError, naming the parameter and what was expected."""
    config, files = None, {}
    for name, value in _parameters(body, "load model", max_bytes=None).items():
        _check_known(name)
        if not isinstance(value, str):
            wanted = "a string that holds the configuration as JSON" if name == CONFIG else "a string of base64"
            raise _wrong_load_type(name, wanted, kind_of(value))
        if name == CONFIG:
            config = value
        else:
            files[name.removeprefix(FILE_PREFIX)] = _decoded(name, value)
    return LoadOverrides(config, files)


def overrides_of_message(request: schema.RepositoryModelLoadRequest) -> LoadOverrides:
    """Raises as `overrides_of_body`."""
    config, files = None, {}
    for name, parameter in request.parameters.items():
        _check_known(name)
        wanted, got = "string_param" if name == CONFIG else "bytes_param", _choice(parameter)
        if got != wanted:
            raise _wrong_load_type(name, wanted, got)
        if name == CONFIG:
            config = parameter.string_param
        else:
            files[name.removeprefix(FILE_PREFIX)] = parameter.bytes_param
    return LoadOverrides(config, files)


def dependents_of_body(body: bytes) -> bool:
    """Whether to unload the models too that this one is composed of. Raises as `overrides_of_body`."""
    value = _parameters(body, "unload model").get(DEPENDENTS, False)
    if not is_kind(value, Kind.BOOLEAN):
        raise _wrong_unload_type(Kind.BOOLEAN, kind_of(value))
    return bool(value)


def dependents_of_message(request: schema.RepositoryModelUnloadRequest) -> bool:
    """As `dependents_of_body`."""
    if DEPENDENTS not in request.parameters:
        return False
    parameter = request.parameters[DEPENDENTS]
    if _choice(parameter) != "bool_param":
        raise _wrong_unload_type("bool_param", _choice(parameter))
    return parameter.bool_param


def _parameters(body: bytes, what: str, max_bytes: int | None = MAX_BYTES) -> Mapping[str, Any]:
    parameters: Mapping[str, Any] = parse_object(body, what, _PARAMETERS, max_bytes=max_bytes).get("parameters", {})
    return parameters


def _check_known(name: str) -> None:
    if name != CONFIG and not name.startswith(FILE_PREFIX):
        raise InvalidArgumentError(
            f"unrecognized load parameter '{shown(name)}': known are '{CONFIG}' for a configuration and "
            f"'{FILE_PREFIX}<path>' for a file of the model folder"
        )


def _decoded(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text.translate(_LINE_BREAKS), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgumentError(f"load parameter '{shown(name)}' is not valid base64: {error}") from None


def _choice(parameter: schema.ModelRepositoryParameter) -> str:
    return parameter.WhichOneof("parameter_choice") or "no value"


def _wrong_load_type(name: str, wanted: str, got: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"invalid value type for load parameter '{shown(name)}', expected {wanted}; got {got}")


def _wrong_unload_type(wanted: str, got: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"invalid value type for '{DEPENDENTS}' parameter, expected {wanted}; got {got}")
