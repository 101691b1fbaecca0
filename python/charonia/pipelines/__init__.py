"""Ensembles: models made of other models.

graph.py      an ensemble's steps and tensors, compiled: what runs for which outputs, and what feeds what
run.py        one request on its way through the graph
strand.py     one pass of it through a part of the graph, once for each response of a decoupled step
marks.py      the sequence that a tensor belongs to
scheduler.py  the Scheduler of an ensemble: starts runs, takes the replies of steps, submits what they make ready
sequences.py  the order in which the requests of one sequence enter each step
limits.py     how many requests of one step may be in flight, and who waits for a place
flow.py       how far the reader of an ensemble's responses, and the steps between, are behind
"""
