"""Model configuration: the schema, reading config.pbtxt, completing it from the model, checking it."""
