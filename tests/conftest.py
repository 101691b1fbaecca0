"""Generated examples are the same in each run, and as slow as the machine is."""

from hypothesis import settings

settings.register_profile("tests", derandomize=True, database=None, deadline=None)
settings.load_profile("tests")
