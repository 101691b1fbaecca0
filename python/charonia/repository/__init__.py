"""The model repository: which models there are, which versions are loaded, and what state each is in."""
