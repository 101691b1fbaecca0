"""Another number of instances for a model version that serves: those that stay are not touched.

Which instance stays is decided as in Triton: by what it runs on and what its group says of it (rate limiter, host
policy and so on), not by its name or by the group that it is listed in.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from charonia.backends.base import InstanceSpec
from charonia.backends.instance import InstanceRunner
from charonia.engine.model import ModelVersion

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class InstanceUpdate:
    """Makes the instances that are missing; nothing of the model changes until `commit`. End it by that or `discard`.

    Args:
        config: the model's configuration from `commit` on.
        specs: the instances that it has then.

    Raises (from the constructor, having freed everything):
        CharoniaError: an instance could not be made.
    """

    def __init__(self, model: ModelVersion, config: "ModelConfig", specs: Sequence[InstanceSpec]) -> None:
        self._model = model
        self._config = config
        self._kept, missing = matched(model.instances, specs)
        self.added = model.make_instances(missing) if missing else []

    def commit(self) -> None:
        """Serve with the new instances; returns once those that leave have finished what they were executing."""
        if not self._model.adopt(self._config, self._kept, self.added):
            self.discard()

    def discard(self) -> None:
        """Leave the model as it is."""
        for runner in self.added:
            runner.join()


def matched(
    instances: Sequence[InstanceRunner], specs: Sequence[InstanceSpec]
) -> tuple[list[InstanceRunner], list[InstanceSpec]]:
    """The instances that stay, and the specs for which there is none yet. Those of the same name go first."""
    free = list(instances)
    kept: list[InstanceRunner] = []
    unnamed = [spec for spec in specs if not _move(free, kept, spec, by_name=True)]
    missing = [spec for spec in unnamed if not _move(free, kept, spec, by_name=False)]
    return [runner for runner in instances if runner in kept], missing


def _move(free: list[InstanceRunner], kept: list[InstanceRunner], spec: InstanceSpec, *, by_name: bool) -> bool:
    for runner in free:
        if _place(runner.spec) == _place(spec) and (not by_name or runner.spec.name == spec.name):
            free.remove(runner)
            kept.append(runner)
            return True
    return False


def _place(spec: InstanceSpec) -> tuple[str, str, bytes]:
    return spec.kind, spec.device, spec.settings
