"""The response cache: a stage between check and queue, of models with response_cache { enable: true }.

settings.py     what `--cache-config` says
opening.py      the store that it asks for
store.py        what a store is
local.py        the store in this process
redis_store.py  the store in a Redis; redis_client.py connects, redis_jobs.py is what waits, wire_form.py an entry
keys.py         when two requests are the same
response.py     what is kept of an answer
stage.py        the stage: look up, answer or queue, keep what comes back
"""
