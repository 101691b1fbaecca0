"""Exceptions of a model's code as text: what happened, and the last places where."""

from __future__ import annotations

import traceback

_FRAMES = 4
_OWN_FILES = __file__.rsplit("/", 1)[0] if "/" in __file__ else ""


def describe(error: BaseException) -> str:
    """`ValueError: text`, then a line `At:` and the last frames, innermost first."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _own(frame.filename)]
    lines = [f"  {frame.filename}({frame.lineno}): {frame.name}" for frame in frames[-_FRAMES:][::-1]]
    text = _headline(error)
    return "\n".join([text, "", "At:", *lines]) if lines else text


def where(error: BaseException) -> str:
    """`model.py:7`, the line of the model's own code that led to the error; "" when there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _own(frame.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _headline(error: BaseException) -> str:
    kind = type(error).__name__
    if isinstance(error, SystemExit):
        return f"the model called sys.exit({'' if error.code is None else repr(error.code)})"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{kind}: {error.msg}, at {error.filename}:{error.lineno}"
    text = _text(error)
    return f"{kind}: {text}" if text else kind


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text can't be read)"


def _own(filename: str) -> bool:
    return filename.startswith("<frozen importlib") or bool(_OWN_FILES and filename.startswith(_OWN_FILES))
