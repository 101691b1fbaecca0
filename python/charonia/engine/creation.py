"""Instances are made side by side: each may take long, to load a model again or to start a process."""

import threading
from collections.abc import Sequence

from charonia.backends.base import BackendInstance, BackendModel, InstanceSpec
from charonia.backends.cores import pinned


def create_all(model: BackendModel, specs: Sequence[InstanceSpec]) -> list[BackendInstance]:
    """Make the instances side by side; if one fails, close the others and raise its error."""
    made: list[BackendInstance | None] = [None] * len(specs)
    errors: list[Exception] = []

    def create(index: int) -> None:
        try:
            with pinned(specs[index].cores):  # the threads that it starts stay on these cores
                made[index] = model.create_instance(specs[index])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=create, args=(index,)) for index in range(1, len(specs))]
    for thread in threads:
        thread.start()
    if specs:
        create(0)
    for thread in threads:
        thread.join()
    complete = [instance for instance in made if instance is not None]
    if errors:
        for instance in complete:
            instance.close()
        raise errors[0]
    return complete
