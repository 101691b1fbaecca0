"""What runs inside a model's own process: standard library and numpy only, in Python 3.8 syntax.

The parent imports the same files for what both sides must agree on (frames, shared memory, columns) and for
models that run inline. Nothing in here imports the rest of Charonia.
"""
