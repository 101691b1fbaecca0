"""Everything between the wire and the engine. The only folder, beside `server.py`, that imports the extension."""
