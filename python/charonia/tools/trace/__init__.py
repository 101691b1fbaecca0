"""`charonia trace`: what is done with trace files."""
