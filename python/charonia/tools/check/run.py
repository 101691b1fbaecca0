"""Looks at every model of the repositories. Nothing is loaded, and nothing of the models' is executed."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from charonia.backends.base import ServerFacts
from charonia.backends.gpus import visible_gpus
from charonia.config.findings import Finding, Severity
from charonia.config.places import Place
from charonia.core.clock import MonotonicClock
from charonia.core.errors import CharoniaError
from charonia.core.log import SilentLog
from charonia.core.model_id import ModelId
from charonia.options import ServerOptions
from charonia.repository.all_repositories import AllRepositories, CloudParts
from charonia.repository.inspection import InspectionParts, ModelReading, inspect_files, inspect_version, read_model
from charonia.repository.namespaces import resolve_steps
from charonia.repository.repositories import of_name
from charonia.repository.scan import FoundModel, Scan, scan
from charonia.repository.source import ModelSource, look_around
from charonia.repository.start import unusable_models
from charonia.repository.strays import why_no_repository
from charonia.tools.check.agents import look_at_agents
from charonia.tools.check.at_hand import brought
from charonia.tools.check.costs import completed_costs, model_costs
from charonia.tools.check.ensembles import look_at_steps
from charonia.tools.check.launch import beside_launch_line
from charonia.tools.check.load import load_model
from charonia.tools.check.report import Report


def check(
    options: ServerOptions,
    names: Sequence[str] = (),
    *,
    load: bool = False,
    on_model: Callable[[str], None] = lambda name: None,
) -> Report:
    """Check all models, or those of `names`.

    Args:
        options: as the server would be started with.
        load: whether each model without errors is loaded and warmed up too, one at a time.
        on_model: told of each model before it is looked at, and "" at the end.
    """
    report = Report()
    parts = _parts(options)
    repositories = _repositories(_readable(options, report), options)
    found, sources = _look_around(repositories)
    try:
        there = sorted((*found.models, *found.duplicates))
        wanted = [model for name in names for model in of_name(name, there)] if names else there
        for model, reason in unusable_models(found, wanted).items():
            if model in wanted:
                report.add(model, [Finding(Severity.ERROR, "", None, reason)])
        with brought([model for model in wanted if model in found.models], sources, parts, report) as at_hand:
            for model in wanted:
                on_model(model)
                report.models.setdefault(model, ())
                if model in found.models and not report.is_broken(model):
                    _check_model(at_hand.models[model], at_hand.models, options, parts, report, loads=load)
                    if load and not report.is_broken(model):
                        load_model(options, model, report)
    finally:
        on_model("")
        parts.registry.close()
        repositories.close()
    return report


def _readable(options: ServerOptions, report: Report) -> list[str]:
    """Each repository by itself, so that one that can't be read does not hide what is wrong in the others."""
    readable: list[str] = []
    for given in options.model_repository:
        try:
            repositories = _repositories([given], options)
            files = repositories.look()
            found = scan(repositories.paths, files)
        except CharoniaError as error:
            report.add("", [Finding(Severity.ERROR, "", None, str(error))])
            continue
        (repository,) = repositories.paths
        misplaced = why_no_repository(repository, files.listing(repository), files)
        report.add("", [each for each in (*found.warnings, *files.remarks) if each != misplaced])
        if misplaced is not None:
            report.add("", [replace(misplaced, severity=Severity.ERROR)])
        elif not found.models:
            report.add("", [_empty(repository)])
        readable.append(given)
    return readable


def _look_around(repositories: AllRepositories) -> tuple[Scan, Mapping[ModelId, ModelSource]]:
    """Without what is a folder of a repository that is none."""
    found, sources = look_around(repositories)
    models = {model: each for model, each in found.models.items() if each.misplaced is None}
    return replace(found, models=models), {model: sources[model] for model in models}


def _repositories(given: Sequence[str], options: ServerOptions) -> AllRepositories:
    cloud = CloudParts(os.environ, MonotonicClock(), threading.Event(), SilentLog())
    return AllRepositories(given, cloud, namespacing=options.model_namespacing)


def _empty(repository: str) -> Finding:
    message = "there is no model in this repository: it has no folder"
    remedy = f"a model is {repository}/<model>/1/model.onnx, or model.py, …"
    return Finding(Severity.ERROR, "", Place(repository), message, remedy)


def _parts(options: ServerOptions) -> InspectionParts:
    facts = ServerFacts(auto_complete=not options.disable_auto_complete_config)
    return InspectionParts.of(options, [gpu.index for gpu in visible_gpus()], facts)


def _check_model(
    model: FoundModel,
    models: Mapping[ModelId, FoundModel],
    options: ServerOptions,
    parts: InspectionParts,
    report: Report,
    *,
    loads: bool,
) -> None:
    reading = read_model(model, parts.config)
    if reading.wants_agents:
        agents = look_at_agents(reading, options, loads=loads)
        report.add(model.id, _placed(model, agents.findings))
        if agents.is_open:  # the folder that counts is the one that they leave
            report.models[model.id] = reading.versions
            return
    resolve_steps(reading.loaded.config, model.id, models)
    report.models[model.id] = reading.versions if reading.error is None else ()
    report.add(model.id, (*_placed(model, reading.findings), *reading.strays))
    if reading.loaded.config.HasField("ensemble_scheduling"):
        _check_ensemble(reading, models, options, parts, report)
    elif reading.loaded.config.backend:
        _check_files(reading, options, parts, report)
    else:
        for version in model.versions[-1:]:
            report.add(model.id, inspect_files(reading, version, parts), version)


def _check_ensemble(
    reading: ModelReading,
    models: Mapping[ModelId, FoundModel],
    options: ServerOptions,
    parts: InspectionParts,
    report: Report,
) -> None:
    name = reading.model.id
    findings, report.graphs[name] = look_at_steps(reading, models, parts)
    report.add(name, findings)
    if not report.is_broken(name):
        report.add(name, model_costs(reading, reading.loaded.config, parts.devices))
        report.add(name, beside_launch_line(reading.loaded.config, reading.loaded.places, options))


def _check_files(reading: ModelReading, options: ServerOptions, parts: InspectionParts, report: Report) -> None:
    model = reading.model
    looked = [(version, inspect_version(reading, version, parts)) for version in reading.versions]
    for version, inspected in looked:
        report.add(model.id, _placed(model, inspected.findings), version)
    if report.is_broken(model.id):
        return  # what it costs is of no interest before it works
    for _, inspected in looked:
        report.add(model.id, model_costs(reading, inspected.config, parts.devices))
        report.add(model.id, beside_launch_line(inspected.config, reading.loaded.places, options))
        if inspected.is_complete:
            report.add(model.id, completed_costs(reading, inspected.config, options.http_max_input_size))


def _placed(model: FoundModel, findings: Iterable[Finding]) -> Iterable[Finding]:
    """What is wrong with a configuration that is in no file is wrong with the folder."""
    for finding in findings:
        is_somewhere = finding.place is not None and os.path.lexists(finding.place.file)
        yield finding if is_somewhere else replace(finding, place=Place(str(model.path)), path="")
