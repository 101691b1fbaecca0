"""Models written in Python for Triton's Python backend: isolated in processes of their own, or inline in the server."""

from charonia.backends.python.backend import PythonBackend

__all__ = ["PythonBackend"]
