"""Batching strategies of your own: a class that says which requests may join a batch. See docs/batching.md.

from charonia.batching import Model, Request

class BatchingStrategy:
    def __init__(self, model: Model): ...
    def start_batch(self): ...
    def may_join(self, batch, request: Request) -> bool: ...
    def finish_batch(self, batch): ...
"""

from charonia.core.batching import Input, Model, Request, Strategy

__all__ = ["Input", "Model", "Request", "Strategy"]
