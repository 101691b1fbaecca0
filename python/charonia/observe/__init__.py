"""What the server knows about its own work: the data. How it is shown stands in `control` and `frontend`."""
