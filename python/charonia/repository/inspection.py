"""What is wrong with a model, found without loading it. The loader and `charonia check` both say what this finds.

read_model       the configuration, the folder, the version policy: all that the loader needs before it loads
inspect_version  the model's files, its devices, labels and warm-up data: why a load would fail, or did
inspect_files    the model's files alone
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from charonia.backends.base import ModelContext, ServerFacts
from charonia.backends.cores import available_cores
from charonia.backends.inspecting import InspectingBackend, Inspection
from charonia.backends.not_installed import BackendMissingError
from charonia.backends.placement import Devices, place
from charonia.backends.registry import BackendRegistry
from charonia.backends.warmup import warmup_samples
from charonia.config.defaults import fill_backend
from charonia.config.findings import ConfigError, Finding, Severity, errors_in
from charonia.config.host_policies import host_policies
from charonia.config.layout import read_layout
from charonia.config.model_config import ConfigOptions, LoadedConfig, finish_config, load_config
from charonia.config.places import NO_PLACES, Place, Places
from charonia.config.schema import ModelConfig
from charonia.core.cloud_address import is_cloud_address
from charonia.core.errors import CharoniaError
from charonia.core.log import SilentLog
from charonia.core.text import in_one_line
from charonia.options import ServerOptions
from charonia.repository.labels import label_findings
from charonia.repository.scan import FoundModel
from charonia.repository.strategy import inspect_strategy
from charonia.repository.strays import is_like_config
from charonia.repository.versions import VersionChoice, choose_versions
from charonia.scheduling.state import initial_state


@dataclass(frozen=True, slots=True)
class ModelReading:
    """One model as far as its configuration and its folder tell.

    Attributes:
        versions: those to serve, ascending, if there is no error.
        findings: of the configuration, of the folder, and of the two together.
    """

    model: FoundModel
    loaded: LoadedConfig
    versions: tuple[int, ...]
    findings: tuple[Finding, ...]

    @property
    def wants_agents(self) -> bool:
        """Whether repository agents are to look at the folder first, and may make another of it."""
        return bool(self.loaded.config.model_repository_agents.agents)

    @property
    def strays(self) -> tuple[Finding, ...]:
        """What else lies in the model's folder where nothing looks for it."""
        told = [each.place for each in self.findings if each.is_error]
        return () if self.model.misplaced else tuple(each for each in self.model.warnings if each.place not in told)

    @property
    def error(self) -> ConfigError | None:
        """Why the model can't be loaded, None when it can be tried. What lies in the wrong place is a likely reason."""
        if not errors_in(self.findings):
            return None
        strays = [replace(each, severity=Severity.ERROR) for each in self.strays]
        return ConfigError([*self.findings, *strays])


@dataclass(frozen=True, slots=True)
class InspectionParts:
    """What inspecting needs of the server.

    Attributes:
        devices: what instances may run on.
        facts: the settings that backends see.
        config: how configs are read.
    """

    registry: BackendRegistry
    devices: Devices
    facts: ServerFacts
    config: ConfigOptions

    @classmethod
    def of(cls, options: ServerOptions, gpus: Sequence[int], facts: ServerFacts) -> "InspectionParts":
        """As the options say; `gpus` are the indices of the visible ones."""
        directory = Path(options.backend_directory) if options.backend_directory else None
        return cls(
            BackendRegistry(directory, options.backend_config),
            Devices(tuple(gpus), available_cores(), options.no_gpu, host_policies(options.host_policy)),
            facts,
            ConfigOptions(facts.auto_complete, options.model_config_name, gpus=tuple(gpus)),
        )


@dataclass(frozen=True, slots=True)
class VersionInspection:
    """One version: its configuration, completed where the files tell, and all that is wrong with it.

    Attributes:
        is_complete: whether `config` is what would be served; else the model itself completes it as it is loaded.
    """

    config: ModelConfig
    is_complete: bool
    findings: tuple[Finding, ...]


def read_model(model: FoundModel, options: ConfigOptions) -> ModelReading:
    """Read the configuration of a model folder and choose the versions. Raises nothing."""
    hopeless = model.misplaced or next((each for each in model.warnings if each.place == Place(str(model.path))), None)
    if hopeless is not None:  # no repository, or a folder that can't be read
        return ModelReading(model, _NOTHING, (), (replace(hopeless, severity=Severity.ERROR),))
    loaded = load_config(model.path, model.name, replace(options, renamed=model.renamed))
    findings = list(_of_config(model, loaded))
    choice = VersionChoice(())
    try:
        choice = choose_versions(loaded.config, model.versions)
    except CharoniaError as error:
        findings.append(_without_versions(model, loaded, error))
    for missing in choice.missing:
        message = f"version {missing} is asked for by the version policy and has no folder"
        findings.append(
            _at(loaded.places, Severity.WARNING, "version_policy", message, f"make '{model.name}/{missing}'")
        )
    return ModelReading(model, loaded, choice.versions, tuple(findings))


def _of_config(model: FoundModel, loaded: LoadedConfig) -> Iterable[Finding]:
    """Without a version folder there is no model file, and it is no news that none tells the backend."""
    for finding in loaded.findings:
        if model.versions or finding.path != "backend":
            yield finding


def _without_versions(model: FoundModel, loaded: LoadedConfig, error: CharoniaError) -> Finding:
    """Where there is no version folder, what lies in its place is what went wrong."""
    if model.versions:
        return _at(loaded.places, Severity.ERROR, "version_policy", str(error))
    message = f"model '{model.name}' has no version folder"
    is_ensemble = loaded.config.HasField("ensemble_scheduling")
    place, remedy = Place(str(model.path)), _make_version(model, is_ensemble)
    for stray in model.warnings:
        if stray.place is not None and not is_like_config(Path(stray.place.file).name):
            message, place, remedy = f"{message}: {stray.message}", stray.place, stray.remedy
            break
    phrase = f"at least one version must be available under the version policy of model '{model.name}'"
    return Finding(Severity.ERROR, "", place, f"{message} ({phrase})", remedy)


def _make_version(model: FoundModel, is_ensemble: bool) -> str:
    folder = model.path / "1"
    if not is_cloud_address(model.repository):
        what = "; it stays empty: an ensemble has no file" if is_ensemble else " and put the model file into it"
        return f"make the folder '{folder}'{what}"
    if not is_ensemble:
        return f"upload the model file to '{folder}/'"
    kind = " and the metadata hdi_isfolder=true" if model.repository.startswith("as://") else ""
    return f"an ensemble has no file, so make an object without content{kind} whose name ends with a slash: '{folder}/'"


def model_context(reading: ModelReading, version: int, config: ModelConfig, parts: InspectionParts) -> ModelContext:
    """What the backend is told of one version."""
    path = reading.model.path
    return ModelContext(
        reading.model.name,
        version,
        config,
        path,
        path / str(version),
        parts.registry.config_for(config.backend),
        parts.facts,
        reading.loaded.places,
        namespace=reading.model.id.namespace,
    )


def inspect_version(reading: ModelReading, version: int, parts: InspectionParts) -> VersionInspection:
    """Look at one of the versions to serve. Nothing is loaded, and nothing of the model's is executed."""
    config = ModelConfig()
    config.CopyFrom(reading.loaded.config)
    places = reading.loaded.places
    try:
        backend = parts.registry.get(config.backend)
    except CharoniaError as error:
        return VersionInspection(config, False, (_without_backend(places, error),))
    inspected = Inspection(config, is_complete=False)
    if isinstance(backend, InspectingBackend):
        inspected = backend.inspect(model_context(reading, version, config, parts))
    config, findings = inspected.config, list(inspected.findings)
    if inspected.is_complete:
        finished = finish_config(reading.loaded, config, parts.config)
        findings += [each for each in finished.findings if each not in (*reading.findings, *findings)]
        findings += _of_warmup(config, reading.model.path, places)
        findings += _of_states(config, reading.model.path, places)
    if not _is_wrong("instance_group", (*reading.findings, *findings)):
        findings += _of_devices(config, places, parts.devices)
    findings += label_findings(config, reading.model.path, places)
    findings += inspect_strategy(model_context(reading, version, config, parts))
    return VersionInspection(config, inspected.is_complete, tuple(findings))


def inspect_files(reading: ModelReading, version: int, parts: InspectionParts) -> tuple[Finding, ...]:
    """What is wrong with the model's files themselves, when the configuration is too broken to be followed."""
    config = ModelConfig()
    fill_backend(config, reading.model.name, read_layout(reading.model.path))
    try:
        backend = parts.registry.get(config.backend)
    except CharoniaError:
        return ()
    if not isinstance(backend, InspectingBackend):
        return ()
    found = backend.inspect(model_context(replace(reading, loaded=_NOTHING), version, config, parts)).findings
    return tuple(each for each in found if each.is_error and each.place is not None and Path(each.place.file).is_file())


_NOTHING = LoadedConfig(ModelConfig(), (), (), "", NO_PLACES)


def _without_backend(places: Places, error: CharoniaError) -> Finding:
    path = "backend" if "backend" in places or "platform" not in places else "platform"
    if isinstance(error, BackendMissingError):
        return _at(places, Severity.ERROR, path, error.message, error.remedy)
    return _at(places, Severity.ERROR, path, str(error))


def explained(error: CharoniaError, inspect: Callable[[], VersionInspection]) -> CharoniaError:
    """The error of a failed load, together with what an inspection finds that explains it."""
    found: list[Finding] = []
    with suppress(Exception):  # a fault in looking must not hide the reason that there is
        found = errors_in(inspect().findings)
    if not found:
        return error
    known = error.findings if isinstance(error, ConfigError) else ()
    findings = [*found, *(each for each in known if each not in found)]
    if not known and not any(_says(str(error), each) for each in found):
        findings.append(Finding(Severity.ERROR, "", None, f"the load said: {in_one_line(str(error))}"))
    return ConfigError(findings)


def _says(error: str, finding: Finding) -> bool:
    """Whether a finding is the reason that the load gave."""
    said = error in finding.message or finding.message in error
    return said or bool(finding.cause and finding.cause in error)


def _is_wrong(field: str, findings: Iterable[Finding]) -> bool:
    """Whether an error is told of this field, or inside it."""
    return any(each.is_error and each.path.partition("[")[0] == field for each in findings)


def _of_devices(config: ModelConfig, places: Places, devices: Devices) -> Iterable[Finding]:
    log = _Warnings()
    try:
        place(config, devices, 1, log)
    except CharoniaError as error:
        yield _at(places, Severity.ERROR, "instance_group", str(error))
    for message in log.messages:
        yield _at(places, Severity.WARNING, "instance_group", message)


def _of_warmup(config: ModelConfig, model_dir: Path, places: Places) -> Iterable[Finding]:
    """Each sample by itself, so that every wrong one is found."""
    for index, sample in enumerate(config.model_warmup):
        alone = ModelConfig()
        alone.CopyFrom(config)
        del alone.model_warmup[:]
        alone.model_warmup.append(sample)
        try:
            warmup_samples(alone, model_dir)
        except CharoniaError as error:
            yield _at(places, Severity.ERROR, f"model_warmup[{index}]", str(error))


def _of_states(config: ModelConfig, model_dir: Path, places: Places) -> Iterable[Finding]:
    for index, state in enumerate(config.sequence_batching.state):
        if state.data_type == 0:
            continue  # which was told
        try:
            initial_state(config, state, model_dir)
        except CharoniaError as error:
            path = f"sequence_batching.state[{index}]"
            field = "data_file" if state.initial_state and state.initial_state[0].data_file else "dims"
            where = f"{path}.initial_state[0].{field}" if state.initial_state else f"{path}.dims"
            yield _at(places, Severity.ERROR, where, str(error))


class _Warnings(SilentLog):
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def warning(self, message: str) -> None:
        self.messages.append(message)


def _at(places: Places, severity: Severity, path: str, message: str, remedy: str = "") -> Finding:
    return Finding(severity, path, places.find(path), message, remedy)
