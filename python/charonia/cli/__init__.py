"""The commands `charonia` and `tritonserver`."""
