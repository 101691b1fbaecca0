"""An ensemble as a model version: its scheduler sends requests to the models of its steps, and it has no instances."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

from charonia.backends.base import BackendInstance, InstanceSpec
from charonia.config.steps import steps_of
from charonia.core.errors import CharoniaError, UnsupportedError
from charonia.engine.model import ModelVersion
from charonia.engine.services import ModelServices
from charonia.pipelines.graph import StepModel
from charonia.pipelines.scheduler import EnsembleScheduler
from charonia.scheduling.base import Scheduler
from charonia.scheduling.bell import ConditionBell
from charonia.scheduling.state import StateStore

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class EnsembleVersion(ModelVersion):
    """As `ModelVersion`; nothing of it can fail or be unwell by itself.

    Args:
        config: checked against those of the steps' models; decoupled if one of them is.
    """

    def __init__(
        self,
        name: str,
        version: int,
        config: "ModelConfig",
        labels: Mapping[str, Sequence[str]],
        services: ModelServices,
        on_closed: Callable[[], None] = lambda: None,
        cache_identity: bytes | None = None,
    ) -> None:
        self._identified: tuple[object, bytes | None] = (None, None)
        super().__init__(
            name,
            version,
            config,
            labels,
            _NoBackend(),
            (),
            ConditionBell(),
            0,
            services,
            on_closed=on_closed,
            cache_identity=cache_identity,
        )

    def _make_scheduler(self, states: StateStore | None) -> Scheduler:
        services = self._services
        return EnsembleScheduler(
            self.id,
            self.config,
            services.clock,
            services.submitter,
            services.directory,
            self._statistics,
            services.log,
        )

    @property
    def needs(self) -> Sequence[tuple[str, int]]:
        return steps_of(self.config)

    @property
    def route(self) -> int:
        """That of its first step, where there is one: the instance that takes a call there executes it at once."""
        if self._entrance.cache is not None:  # it may need no step
            return 0
        makes = {tensor for step in self.config.ensemble_scheduling.step for tensor in step.output_map.values()}
        first = [
            need
            for need, step in zip(self.needs, self.config.ensemble_scheduling.step, strict=True)
            if not makes.intersection(step.input_map.values())
        ]
        steps = self._steps()
        return steps[first[0]].route if len(first) == 1 and first[0] in steps and not self.has_sequences else 0

    @property
    def has_sequences(self) -> bool:
        return any(step.has_sequences for step in self._steps().values())

    def cache_identity(self) -> bytes | None:
        """That of the ensemble itself and those of its steps' models at this moment. None while a step does not serve,
        or has sequences."""
        models = self._services.directory()
        seen, identity = self._identified
        if seen is not models:
            identity = self._identity_with(self._steps())
            self._identified = (models, identity)  # at once, so that another thread sees both or neither
        return identity

    def _identity_with(self, steps: Mapping[tuple[str, int], StepModel]) -> bytes | None:
        digest = blake2b(self._cache_identity, digest_size=16)
        for need in self.needs:
            step = steps.get(need)
            identity = None if step is None or step.has_sequences else step.cache_identity()
            if identity is None:
                return None
            digest.update(identity)  # each of one length
        return digest.digest()

    def _steps(self) -> Mapping[tuple[str, int], StepModel]:
        """The models of its steps that serve now."""
        models = self._services.directory()
        found: dict[tuple[str, int], StepModel] = {}
        for need in self.needs:
            with suppress(CharoniaError):
                found[need] = models.find(*need)
        return found

    @property
    def live_instances(self) -> int:
        """1 while all its steps can answer, else 0: it needs none of its own."""
        models = self._services.directory()
        try:
            return int(all(models.find(*step).live_instances for step in self.needs))
        except CharoniaError:
            return 0

    def end_sequence(self, correlation_id: int | str) -> None:
        """Of each step: its model has the sequence under the same id."""
        models = self._services.directory()
        for step in self.needs:
            with suppress(CharoniaError):
                models.find(*step).end_sequence(correlation_id)


class _NoBackend:
    """Implements `BackendModel`."""

    def create_instance(self, spec: InstanceSpec) -> BackendInstance:
        raise UnsupportedError(f"an ensemble has no instances, so there can be no '{spec.name}'")

    def close(self) -> None:
        """Nothing is held."""
