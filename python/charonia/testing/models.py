"""Models without a backend, for tests of what is around them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from charonia.config.schema import ModelConfig
from charonia.core.model_id import ModelId
from charonia.core.readiness import TellsReadiness
from charonia.observe.statistics import ModelStatistics
from charonia.repository.directory import Directory
from charonia.repository.states import ModelRecord, State, VersionRecord


@dataclass
class FakeInstance:
    """One instance, as control handlers see it."""

    name: str
    device: str = "cpu"
    is_busy: bool = False
    alive: bool = True


@dataclass
class FakeModel:
    """A loaded model version. `config` needs no more than a test looks at."""

    name: str
    version: int = 1
    config: ModelConfig = field(default_factory=ModelConfig)
    statistics: ModelStatistics = field(default_factory=ModelStatistics)
    instances: list[FakeInstance] = field(default_factory=list)
    live_instances: int = 1
    failure: str | None = None
    pending_count: int = 0
    batch_delay_us: float | None = None
    readiness_tellers: list[TellsReadiness] = field(default_factory=list)
    gpu_statistics: dict[str, ModelStatistics] = field(default_factory=dict)

    @property
    def id(self) -> ModelId:
        return ModelId(self.name)

    def retire(self) -> None: ...

    def wait_idle(self, timeout_s: float) -> bool:
        return True

    def stop(self, timeout_s: float) -> bool:
        return True


def fake_directory(models: Iterable[FakeModel], records: Iterable[ModelRecord[FakeModel]] = ()) -> Directory[FakeModel]:
    """A directory in which `models` are READY, and `records` stand as given."""
    found: dict[str, ModelRecord[FakeModel]] = {record.name: record for record in records}
    for model in models:
        record = found.setdefault(model.name, ModelRecord(ModelId(model.name), asked=True))
        record.versions[model.version] = VersionRecord(model.version, State.READY, loaded=model)
    return Directory.of(found)


def example_models() -> list[FakeModel]:
    """`id` batches up to 4 (FP32 of any length); `addsub` has versions 1 and 3 and does not batch."""
    identity = ModelConfig(name="id", backend="python", max_batch_size=4)
    identity.input.add(name="INPUT0", data_type="TYPE_FP32", dims=[-1])
    identity.output.add(name="OUTPUT0", data_type="TYPE_FP32", dims=[-1])
    addsub = ModelConfig(name="addsub", platform="onnxruntime_onnx", backend="onnxruntime")
    for number in (0, 1):
        addsub.input.add(name=f"INPUT{number}", data_type="TYPE_INT32", dims=[4])
        addsub.output.add(name=f"OUTPUT{number}", data_type="TYPE_STRING", dims=[4])
    return [FakeModel("id", 1, identity), FakeModel("addsub", 1, addsub), FakeModel("addsub", 3, addsub)]


def example_directory(models: Iterable[FakeModel]) -> Directory[FakeModel]:
    """`models`; and `late` is loading, `bad` failed, `shelf` was never asked for."""
    late = ModelRecord[FakeModel](ModelId("late"), asked=True, versions={1: VersionRecord(1, State.LOADING)})
    bad = ModelRecord[FakeModel](
        ModelId("bad"), asked=True, versions={1: VersionRecord(1, State.UNAVAILABLE, "no such file")}
    )
    return fake_directory(models, (late, bad, ModelRecord(ModelId("shelf"))))
