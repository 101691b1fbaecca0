"""Programs that measure Charonia beside other things, and what they measured."""
