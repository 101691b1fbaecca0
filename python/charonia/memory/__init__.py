"""Memory that clients share with the server: regions by name, in the machine's shared memory or on a GPU."""
