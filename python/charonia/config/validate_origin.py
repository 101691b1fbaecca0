"""Rules for what says who serves a model: platform and backend, runtime, repository agents."""

from charonia.config.platforms import ENSEMBLE, platforms, rule_for_platform, rules_for_backend
from charonia.config.report import Report
from charonia.config.schema import ModelConfig

_PYTHON_RUNTIME = "model.py"


def check_origin(config: ModelConfig, report: Report) -> None:
    if config.platform == ENSEMBLE:
        if config.backend:
            message = f'an ensemble has no backend, got backend: "{config.backend}"'
            report.error("backend", message, f'remove the line, or the platform "{ENSEMBLE}"')
    else:
        _check_pair(config, report)
        _check_runtime(config, report)
    _check_agents(config, report)


def _check_pair(config: ModelConfig, report: Report) -> None:
    """A known backend serves its own platforms only; other backends may name any."""
    allowed = [rule.platform for rule in rules_for_backend(config.backend) if rule.platform]
    rule = rule_for_platform(config.platform)
    if not allowed or (rule is not None and rule.backend == config.backend):
        return
    choice = " or ".join(f'"{platform}"' for platform in allowed)
    if not config.platform:
        report.error("platform", f'backend "{config.backend}" needs a platform', f"set platform to {choice}")
        return
    message = f'platform "{config.platform}" is not one of backend "{config.backend}"'
    known = "" if rule is not None else f"; known platforms are {', '.join(platforms())}"
    report.error("platform", message, f"set platform to {choice}, or remove one of the two lines{known}")


def _check_runtime(config: ModelConfig, report: Report) -> None:
    """`runtime` names the library of the backend in Triton's folder; here it can only confirm what the backend is."""
    allowed = [f"libtriton_{config.backend}.so", f"triton_{config.backend}.dll"]
    if config.backend not in ("python", "onnxruntime", "identity"):
        allowed.append(_PYTHON_RUNTIME)
    if config.runtime and config.runtime not in allowed:
        choice = " or ".join(f'"{name}"' for name in (allowed[0], *allowed[2:]))
        message = f'runtime is "{config.runtime}", and backend "{config.backend}" has no such library'
        report.error("runtime", message, f"remove the line, or write {choice}")


def _check_agents(config: ModelConfig, report: Report) -> None:
    """Whether they are there is found when they are asked to act, which is before anything else is done."""
    for index, agent in enumerate(config.model_repository_agents.agents):
        if not agent.name:
            path = f"model_repository_agents.agents[{index}]"
            report.error(path, "this repository agent has no name", 'write name: "checksum", or another agent\'s name')
