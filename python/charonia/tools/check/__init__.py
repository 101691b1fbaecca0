"""`charonia check`: everything that can be known of a repository without serving it.

run.py        looks at every model: what is wrong, and what works and costs
costs.py      what works and costs
ensembles.py  the models of an ensemble's steps, and what does not fit between them and it
graph.py      which steps of an ensemble run when, and what flows between them
load.py       with --load: loads and warms up each model, one after the other
report.py     what came of it: plain records
as_text.py, as_json.py   the report for people and for machines
"""
