"""Two models that share a resource, both with more work than they get done: who executes how often?

python -m examples.rate_limit.race
"""

from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

import numpy as np

from charonia import Server

MODELS = Path(__file__).parent / "models"
IN_FLIGHT = 4
ROW = {"INPUT0": np.ones((1, 4), np.float32)}


def race(executions: int) -> dict[str, int]:
    """How often each model has executed when that many requests are answered."""
    with Server(
        MODELS, allow_http=False, allow_grpc=False, allow_metrics=False, rate_limit="execution_count"
    ) as server:
        models = {name: server.model(name) for name in ("interactive", "background")}
        counts = dict.fromkeys(models, 0)
        waiting: dict[Future[object], str] = {
            model.submit(ROW): name for name, model in models.items() for _ in range(IN_FLIGHT)
        }
        while sum(counts.values()) < executions:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                name = waiting.pop(future)
                counts[name] += 1
                waiting[models[name].submit(ROW)] = name
        wait(waiting)
    return counts


if __name__ == "__main__":
    for name, count in race(300).items():
        print(f"{name:12} {count}")
