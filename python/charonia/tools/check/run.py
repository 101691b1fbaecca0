"""Looks at every model of the repositories. Nothing is loaded, and nothing of the models' is executed."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from charonia.backends.base import ServerFacts
from charonia.backends.gpus import visible_gpus
from charonia.config.findings import Finding, Severity
from charonia.config.places import Place
from charonia.core.errors import CharoniaError
from charonia.options import ServerOptions
from charonia.repository.inspection import InspectionParts, ModelReading, inspect_files, inspect_version, read_model
from charonia.repository.repositories import repository_paths
from charonia.repository.scan import FoundModel, Scan, scan
from charonia.repository.start import unusable_models
from charonia.repository.strays import listing, why_no_repository
from charonia.tools.check.costs import completed_costs, model_costs
from charonia.tools.check.ensembles import look_at_steps
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
    found = _scan(options.model_repository, report)
    parts = _parts(options)
    try:
        wanted = sorted(names or (*found.models, *found.duplicates))
        for name, reason in unusable_models(found, wanted).items():
            if name in wanted:
                report.add(name, [Finding(Severity.ERROR, "", None, reason)])
        for name in wanted:
            on_model(name)
            report.models.setdefault(name, ())
            if name in found.models:
                _check_model(found.models[name], found.models, options, parts, report)
                if load and not report.is_broken(name):
                    load_model(options, name, report)
    finally:
        on_model("")
        parts.registry.close()
    return report


def _scan(repositories: Sequence[str], report: Report) -> Scan:
    """Each repository by itself, so that one that can't be read does not hide what is wrong in the others."""
    readable: list[str] = []
    for given in repositories:
        try:
            (repository,) = repository_paths([given])
            found = scan([repository])
        except CharoniaError as error:
            report.add("", [Finding(Severity.ERROR, "", None, str(error))])
            continue
        misplaced = why_no_repository(repository, listing(repository))
        report.add("", [each for each in found.warnings if each != misplaced])
        if misplaced is not None:
            report.add("", [replace(misplaced, severity=Severity.ERROR)])
        elif not found.models:
            report.add("", [_empty(repository)])
        readable.append(repository)
    found = scan(readable)
    return replace(found, models={name: each for name, each in found.models.items() if each.misplaced is None})


def _empty(repository: str) -> Finding:
    message = "there is no model in this repository: it has no folder"
    remedy = f"a model is {Path(repository, '<model>', '1', 'model.onnx')}, or model.py, …"
    return Finding(Severity.ERROR, "", Place(repository), message, remedy)


def _parts(options: ServerOptions) -> InspectionParts:
    facts = ServerFacts(auto_complete=not options.disable_auto_complete_config)
    return InspectionParts.of(options, [gpu.index for gpu in visible_gpus()], facts)


def _check_model(
    model: FoundModel,
    models: Mapping[str, FoundModel],
    options: ServerOptions,
    parts: InspectionParts,
    report: Report,
) -> None:
    reading = read_model(model, parts.config)
    report.models[model.name] = reading.versions if reading.error is None else ()
    report.add(model.name, (*_placed(model, reading.findings), *reading.strays))
    if reading.loaded.config.HasField("ensemble_scheduling"):
        _check_ensemble(reading, models, parts, report)
    elif reading.loaded.config.backend:
        _check_files(reading, options, parts, report)
    else:
        for version in model.versions[-1:]:
            report.add(model.name, inspect_files(reading, version, parts), version)


def _check_ensemble(
    reading: ModelReading, models: Mapping[str, FoundModel], parts: InspectionParts, report: Report
) -> None:
    name = reading.model.name
    findings, report.graphs[name] = look_at_steps(reading, models, parts)
    report.add(name, findings)
    if not report.is_broken(name):
        report.add(name, model_costs(reading, reading.loaded.config, parts.devices))


def _check_files(reading: ModelReading, options: ServerOptions, parts: InspectionParts, report: Report) -> None:
    model = reading.model
    looked = [(version, inspect_version(reading, version, parts)) for version in reading.versions]
    for version, inspected in looked:
        report.add(model.name, _placed(model, inspected.findings), version)
    if report.is_broken(model.name):
        return  # what it costs is of no interest before it works
    for _, inspected in looked:
        report.add(model.name, model_costs(reading, inspected.config, parts.devices))
        if inspected.is_complete:
            report.add(model.name, completed_costs(reading, inspected.config, options.http_max_input_size))


def _placed(model: FoundModel, findings: Iterable[Finding]) -> Iterable[Finding]:
    """What is wrong with a configuration that is in no file is wrong with the folder."""
    for finding in findings:
        is_somewhere = finding.place is not None and os.path.lexists(finding.place.file)
        yield finding if is_somewhere else replace(finding, place=Place(str(model.path)), path="")
