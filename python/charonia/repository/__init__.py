"""The model repository: which models there are, which versions are loaded, and what state each is in.

what lies there    all_repositories (folders, and remote: object stores), files (the protocol over both), repositories,
                   scan, strays, fingerprint, override_files (of a request) in temporary folders, source (all of it)
what it means      inspection, versions, labels, namespaces
a load             plans (what is to be done), loader (makes them), model_load, ensemble_load with steps (do it),
                   attempt (one load of one model), lifecycle (all of them), retirement (what is on its way out)
what is known      states, directory, publication, readiness; needs (which ensemble is on which models)
who asks           start, polling, control, calls (of models); by operations, which takes turns
what the log says  tables, remarks
"""
