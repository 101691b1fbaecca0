"""The records and protocols that every other part of Charonia shares. Imports nothing above it."""
