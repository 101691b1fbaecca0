"""Model repositories and clients that show Charonia at work."""
