"""Traces of single requests: which are taken, what is noted of each, and where it goes.

`setting` says which requests are traced, `settings` keeps them by model, `config` reads `--trace-config`. `record` is
what is noted while a request is served; `writer` hands finished records to a thread of its own, which gives them to a
file in Triton's format (`as_json`, `file`) or to an OpenTelemetry collector (`spans`). `tracer` puts them together.
"""
