"""Answers to everything that is not an inference: one thin class a subject, shared by the HTTP and gRPC front ends."""
