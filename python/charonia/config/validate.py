"""The rules that a configuration must keep; every broken one is found, not only the first. They are Triton's rules."""

from charonia.config.findings import Finding
from charonia.config.metric_control import check_metric_control
from charonia.config.places import NO_PLACES, Places
from charonia.config.report import Report
from charonia.config.schema import ModelConfig
from charonia.config.validate_batch_io import check_batch_io
from charonia.config.validate_batching import check_batching
from charonia.config.validate_ensemble import check_ensemble
from charonia.config.validate_groups import check_instance_groups
from charonia.config.validate_io import check_io
from charonia.config.validate_origin import check_origin
from charonia.config.validate_paths import check_paths
from charonia.config.validate_states import check_states
from charonia.core.text import different_encoding


def validate(
    config: ModelConfig, *, folder: str, places: Places = NO_PLACES, is_complete: bool = True
) -> list[Finding]:
    """Check `config`, defaults filled in.

    Args:
        folder: the name of the model's folder, which its name must equal.
        is_complete: False while the backend may still fill in inputs, outputs and max_batch_size from the model file:
            what is missing is then no finding.
    """
    report = Report(places)
    _check_name(config, folder, report)
    check_origin(config, report)
    check_paths(config, report)
    _check_version_policy(config, report)
    _check_max_batch_size(config, report)
    check_io(config, report, is_complete=is_complete)
    check_batch_io(config, report)
    check_batching(config, report, is_complete=is_complete)
    check_states(config, report, is_complete=is_complete)
    check_instance_groups(config, report)
    check_ensemble(config, report)
    _check_response_cache(config, report)
    check_metric_control(config, report)
    return report.findings


def _check_name(config: ModelConfig, folder: str, report: Report) -> None:
    if config.name != folder:
        message = f"name is \"{config.name}\", but the model's folder is '{folder}'; the two must be equal"
        message += different_encoding(config.name, folder, "in the name", "in the folder's")
        report.error("name", message, f'write name: "{folder}", remove the line, or rename the folder')


def _check_version_policy(config: ModelConfig, report: Report) -> None:
    policy = config.version_policy
    if policy.WhichOneof("policy_choice") != "specific":
        return
    path = "version_policy.specific.versions"
    if not policy.specific.versions:
        report.error(path, "version_policy asks for specific versions but lists none", "write versions: [ 1 ]")
    for index, version in enumerate(policy.specific.versions):
        if version < 1:
            report.warn(f"{path}[{index}]", f"there can be no version {version}", "remove it: versions count from 1")


def _check_max_batch_size(config: ModelConfig, report: Report) -> None:
    if config.max_batch_size < 0:
        message = f"max_batch_size is {config.max_batch_size}, expected 0 (no batching) or more"
        report.error("max_batch_size", message, "write max_batch_size: 0, or remove the line")


def _check_response_cache(config: ModelConfig, report: Report) -> None:
    if not config.response_cache.enable:
        return
    remedy = "remove response_cache { enable: true }"
    refusal = "the response cache does not currently support"
    if config.HasField("sequence_batching"):
        report.error("response_cache", f"{refusal} models with sequence_batching", remedy)
    if config.model_transaction_policy.decoupled:
        report.error("response_cache", f"{refusal} decoupled models", remedy)
