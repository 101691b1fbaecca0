"""The backends, and what all of them share: the contract, placement on devices, instances and batches."""
