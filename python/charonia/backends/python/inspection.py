"""What is wrong with a Python model, found by reading its file: nothing of it is executed."""

from collections.abc import Iterator
from pathlib import Path

from charonia.backends.base import ModelContext
from charonia.backends.inspecting import Inspection, file_error
from charonia.backends.python.environment import PARAMETER, Environment, Environments
from charonia.backends.python.imports import check_imports
from charonia.backends.python.launch import find_files
from charonia.backends.python.settings import wrong_settings
from charonia.backends.python.source import Source, check_answers, check_class, has_auto_complete, read_source
from charonia.backends.python.tensor_names import check_names, example_config, inputs_read, outputs_made
from charonia.config.findings import Finding, Severity
from charonia.core.errors import CharoniaError


def inspect(context: ModelContext, environments: Environments, backend_file: Path | None) -> Inspection:
    """See `InspectingBackend`. What `auto_complete_config` would fill in is not known: it is not run."""
    findings = wrong_settings(context)
    environment = _environment(context, environments, findings)
    try:
        files = find_files(context, backend_file)
    except CharoniaError as error:
        return Inspection(context.config, (*findings, file_error(context.version_dir, str(error))), is_complete=False)
    source = read_source(files.model_file)
    if isinstance(source, Finding):
        return Inspection(context.config, (*findings, source), is_complete=False)
    findings += check_class(source)
    findings += check_answers(source, decoupled=context.config.model_transaction_policy.decoupled)
    if environment is not None:
        is_own = environment == environments.find(context.name, "", context.model_dir)
        findings += check_imports(source, files.folders, environment, is_own)
    if backend_file is None:
        findings += check_names(source, context.config)
        findings += without_tensors(context, source, auto_complete=context.server.auto_complete)
    is_complete = not (context.server.auto_complete and has_auto_complete(source))
    return Inspection(context.config, tuple(findings), is_complete)


def _environment(context: ModelContext, environments: Environments, findings: list[Finding]) -> Environment | None:
    """None for one that is wrong, or packed: to look into that it would have to be unpacked."""
    parameters = context.config.parameters
    value = parameters[PARAMETER].string_value if PARAMETER in parameters else ""
    try:
        return environments.look(context.name, value, context.model_dir)
    except CharoniaError as error:
        path = f'parameters["{PARAMETER}"]'
        findings.append(Finding(Severity.ERROR, path, context.places.find(path), str(error)))
        return None


def without_tensors(context: ModelContext, source: Source, *, auto_complete: bool) -> Iterator[Finding]:
    """Such a model loads, and can't be given anything.

    Args:
        auto_complete: whether the model has still to be asked for its tensors.
    """
    config = context.config
    if config.input or config.output or (auto_complete and has_auto_complete(source)):
        return
    path = context.model_dir / "config.pbtxt"
    nobody = "its configuration names none" if path.is_file() else "it has no config.pbtxt"
    message = (
        f"model '{context.name}' has no inputs and no outputs: {nobody}, and its class has no auto_complete_config "
        "that adds them; a request that brings or wants one is refused"
    )
    verb = "add to" if path.is_file() else "write"
    remedy = f"{verb} '{path}': {example_config(inputs_read(source), outputs_made(source))}"
    yield Finding(Severity.WARNING, "input", context.places.find(""), message, remedy)
