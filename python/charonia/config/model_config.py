"""A model's configuration from its folder: found, read, completed with defaults, checked.

loaded = load_config(model_dir, name, options)      config.pbtxt, defaults, first checks
config = backend.complete_config(…)                 what the model file tells
loaded = finish_config(loaded, config, options)     defaults again, all checks
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from charonia.config.defaults import fill_backend, normalize
from charonia.config.differences import differences
from charonia.config.findings import Completion, ConfigError, Finding, Severity, errors_in, raise_on_errors, unreadable
from charonia.config.instance_groups import fill_instance_groups
from charonia.config.json_form import config_from_json
from charonia.config.layout import Layout, read_layout
from charonia.config.pbtxt import LIMIT_BYTES, Document, parse_pbtxt
from charonia.config.places import Place, Places
from charonia.config.report import Report
from charonia.config.schema import ModelConfig
from charonia.config.validate import validate
from charonia.config.validate_groups import check_counts
from charonia.core.files import read_regular

CONFIG_FILE = "config.pbtxt"
CUSTOM_CONFIGS = "configs"


@dataclass(frozen=True, slots=True)
class ConfigOptions:
    """What the server says about configurations.

    Attributes:
        auto_complete: False with `--disable-auto-complete-config`: config.pbtxt must be there and say everything.
        config_name: `--model-config-name`: `configs/<name>.pbtxt` goes before config.pbtxt where it is there.
        override_json: the config of a load request, in place of any file.
        gpus: the indices of the visible GPUs.
        config_dir: where the model's configuration lies; None for the model's folder, as nearly always.
        renamed: whether the model is served under another name than its folder's, whatever its configuration says.
    """

    auto_complete: bool = True
    config_name: str = ""
    override_json: str | None = None
    gpus: tuple[int, ...] = ()
    config_dir: Path | None = None
    renamed: bool = False


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration and what is to be said about it.

    Attributes:
        findings: everything that is wrong; it can be served if none is an error.
        completions: what was filled in, to be logged once.
        source: the file it came from, "config override", or "" when there was none.
        places: where its fields were written.
    """

    config: ModelConfig
    findings: tuple[Finding, ...]
    completions: tuple[Completion, ...]
    source: str
    places: Places

    @property
    def errors(self) -> Sequence[Finding]:
        return errors_in(self.findings)

    def raise_on_errors(self) -> None:
        """
        Raises:
            ConfigError: there is an error among the findings.
        """
        raise_on_errors(self.findings)


def load_config(model_dir: Path, name: str, options: ConfigOptions) -> LoadedConfig:
    """Read, complete with defaults and check the configuration of the model in `model_dir`. Raises nothing.

    Args:
        name: the model's name, which is its folder's, unless `options.renamed`.
    """
    try:
        document, source = _read(model_dir, name, options)
    except ConfigError as error:
        return LoadedConfig(ModelConfig(name=name), error.findings, (), "", Places(""))
    return _complete(document, source, name, read_layout(model_dir), options)


def finish_config(
    loaded: LoadedConfig, config: ModelConfig, options: ConfigOptions, filled: Sequence[Completion] = ()
) -> LoadedConfig:
    """The configuration after the backend completed it: defaults for what it added, and every check.

    Args:
        loaded: what `load_config` gave.
        config: what the backend made of `loaded.config`; defaults are filled in place.
        filled: what the backend says that it filled in; without, the two are compared.
    """
    filled = filled or differences(loaded.config, config, f"by the backend {config.backend}")
    done = [*filled, *normalize(config), *fill_instance_groups(config, options.gpus)]
    findings = validate(config, folder=config.name, places=loaded.places)
    kept = [finding for finding in loaded.findings if finding not in findings]
    return replace(
        loaded,
        config=config,
        findings=(*kept, *findings),
        completions=(*loaded.completions, *done),
    )


def config_path(model_dir: Path, config_name: str = "") -> Path:
    """The file that configures the model: the custom one where it is there, else config.pbtxt, there or not."""
    custom = model_dir / CUSTOM_CONFIGS / f"{config_name}.pbtxt"
    return custom if config_name and os.path.isfile(custom) else model_dir / CONFIG_FILE


def _read(model_dir: Path, name: str, options: ConfigOptions) -> tuple[Document, str]:
    if options.override_json is not None:
        document = config_from_json(options.override_json)
        return document, document.places.file
    path = config_path(options.config_dir or model_dir, options.config_name)
    try:
        return parse_pbtxt(read_regular(path, LIMIT_BYTES + 1), str(path)), str(path)
    except FileNotFoundError:
        if options.auto_complete:
            return Document(ModelConfig(), Places(f"model '{name}' (without {CONFIG_FILE})")), ""
        message = "the file is not there, and --disable-auto-complete-config makes it necessary"
        finding = Finding(Severity.ERROR, "", Place(str(path)), message, "write it, or start without that flag")
    except OSError as error:
        finding = unreadable(path, error)
    raise ConfigError([finding])


def _complete(document: Document, source: str, name: str, layout: Layout, options: ConfigOptions) -> LoadedConfig:
    config, places = document.config, document.places
    if options.renamed:
        config.name = name
    report, counts = Report(places), [group.count for group in config.instance_group]
    completions, findings = fill_backend(config, name, layout, places)
    completions += normalize(config)
    completions += fill_instance_groups(config, options.gpus)
    check_counts(counts, config, report)
    findings = [*document.warnings, *findings, *report.findings]
    findings += validate(config, folder=name, places=places, is_complete=not options.auto_complete)
    return LoadedConfig(config, tuple(findings), tuple(completions), source, places)
