"""The generate extension, between its HTTP calls and the engine."""
