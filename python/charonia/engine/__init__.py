"""The middle of the server: finds the model for a request, checks it, hands it to the model's scheduler."""
