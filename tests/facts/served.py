"""A server over a copy of a subject's models, to which all its rows are sent in order."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from charonia.api import Server
from tests.facts.layout import lay_out
from tests.facts.over_grpc import Grpc
from tests.facts.over_http import ask
from tests.facts.rows import HERE, Answer, Fact, Subject

# Models run in this process: it takes seconds to start one for each instance, and what they answer is the same.
_INLINE = {"python": {"execution": "inline"}}


def replay(subject: Subject, folder: Path) -> list[Answer]:
    """What a new server answers to each row."""
    repository = folder / "models"
    for models in subject.models:
        for model in filter(Path.is_dir, (HERE / models).iterdir()):
            lay_out(model, repository / model.name)
    options = {"backend_config": _INLINE, **subject.options}
    with (
        segments(subject.segments),
        Server(repository, http_port=0, grpc_port=0, metrics_port=0, **options) as server,
    ):
        return answers(subject.facts, repository, dict(server.ports))


@contextmanager
def segments(sizes: dict[str, int]) -> Iterator[None]:
    """Segments of shared memory, filled with zeros, while the block runs."""
    paths = {Path("/dev/shm", name): size for name, size in sizes.items()}
    try:
        for path, size in paths.items():
            path.write_bytes(bytes(size))
        yield
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def answers(facts: list[Fact], repository: Path, ports: dict[str, int]) -> list[Answer]:
    """What the server behind `ports` answers to each row."""
    over_grpc = Grpc(ports["grpc"])
    try:
        return [_answer(fact.request, repository, ports, over_grpc) for fact in facts]
    finally:
        over_grpc.close()


def _answer(request: dict, repository: Path, ports: dict[str, int], over_grpc: Grpc) -> Answer:
    _change(repository, request.get("change", {}))
    return over_grpc.ask(request) if "grpc" in request else ask(ports, request)


def _change(repository: Path, change: dict) -> None:
    for path in change.get("remove", ()):
        target = repository / path
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    for path, text in change.get("write", {}).items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)
