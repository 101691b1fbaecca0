"""`breakpoint()` in a process of a model's own: it has no terminal, so Python's debugger would end at once."""

from __future__ import annotations

import os
import sys

from .errors import TritonModelException

CHOICE = "PYTHONBREAKPOINT"
"""The variable that names another debugger, such as one that is spoken to over the network, or turns all off."""


def explain_breakpoints() -> None:
    """Have `breakpoint()` say what to do, unless the user has chosen what it does."""
    if not os.environ.get(CHOICE):
        sys.breakpointhook = _refuse


def _refuse(*_: object, **__: object) -> None:
    place = sys._getframe(1)
    raise TritonModelException(
        f"breakpoint() at {place.f_code.co_filename}:{place.f_lineno} can't stop here: the process of a Python model "
        'has no terminal. With parameters { key: "execution" value { string_value: "inline" } } in config.pbtxt, or '
        "--backend-config=python,execution=inline for every model, it stops in the terminal of the server; "
        f"{CHOICE} in the server's environment names a debugger that needs none"
    )
