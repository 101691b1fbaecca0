"""Python source to its syntax tree, by one thread at a time."""

import ast
import threading

# CPython counts how deep it is in a tree for the whole interpreter. When garbage is collected meanwhile and lets in
# another thread that parses too, one of them ends with a SystemError ("recursion depth mismatch"; seen with 3.11.7).
_ONE_AT_A_TIME = threading.Lock()


def parse(code: bytes, filename: str = "<model>") -> ast.Module:
    """The tree of `code`.

    Raises:
        SyntaxError: this is no Python.
        ValueError: this is no text.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(code, filename)
