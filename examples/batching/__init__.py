"""A repository whose model says itself which requests may share a batch."""
