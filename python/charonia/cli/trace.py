"""`charonia trace convert`: a trace file for a viewer. Gives the exit code."""

import json
import sys

from charonia.core.errors import InvalidArgumentError
from charonia.tools.trace.convert import converted

OK = 0
FAILED = 1


def run_convert(source: str, target: str) -> int:
    """Read `source`, write `target`; "-" is standard input and output."""
    try:
        document = converted(_read(source))
        text = json.dumps(document)
        if target == "-":
            print(text)
        else:
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
    except InvalidArgumentError as error:
        return _failed(f"{source}: {error}")
    except OSError as error:
        return _failed(f"{error.filename or source}: {error.strerror}")
    return OK


def _read(source: str) -> object:
    try:
        if source == "-":
            return json.load(sys.stdin)
        with open(source, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise InvalidArgumentError(f"it is not JSON: {error}") from None


def _failed(message: str) -> int:
    print(f"charonia trace convert: {message}", file=sys.stderr)
    return FAILED
