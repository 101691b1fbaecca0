"""Repositories in object stores: S3, Google Cloud Storage, Azure Storage.

credentials  where they come from: the environment, or Triton's file of credentials
stores       one store: list, fetch; by fsspec, each kind by an extra of its own
retries      what is tried again, and what is said in the end
objects      a listing as folders and files, which the scanner looks at like any other
downloads    many objects to files, side by side, with progress; what changes meanwhile is taken again
folders      a model brought here: its configuration first, then the versions that are served
"""
