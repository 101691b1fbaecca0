"""The protobuf definitions, and what `generate.py` makes of them: descriptor bytes and typed stubs."""
