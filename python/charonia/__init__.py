"""Charonia: a model inference server that speaks Triton's protocols. See `charonia.Server` for in-process use."""

__version__ = "0.1.0"
