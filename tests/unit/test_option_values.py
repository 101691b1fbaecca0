"""Settings of an embedded server: what each may be given as, and what is refused."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from charonia.cli.flags import FLAGS
from charonia.cli.parse import parse_flags
from charonia.core.errors import InvalidArgumentError
from charonia.option_values import READERS
from charonia.options import ServerOptions

TYPES = {each.name: each.type for each in fields(ServerOptions)}
REPEATED = sorted({flag.option for flag in FLAGS.values() if flag.collect})
BY_NAME = {
    "backend_config": ("python,execution=inline", {"python": {"execution": "inline"}}),
    "cache_config": ("local,size=1048576", {"local": {"size": 1048576}}),
    "host_policy": ("gpu_0,numa-node=1", {"gpu_0": {"numa-node": 1}}),
    "metrics_config": ("summary_latencies=true", {"summary_latencies": True}),
}


def of(name: str, value: object) -> object:
    return getattr(ServerOptions.of(**{name: value}), name)


def test_every_setting_is_read_by_its_type() -> None:
    assert set(TYPES.values()) <= set(READERS)
    assert sorted(BY_NAME) == [name for name in REPEATED if issubclass(TYPES[name].__origin__, Mapping)]


@pytest.mark.parametrize("name", REPEATED)
def test_a_flag_that_may_be_repeated_takes_one_text_or_several(name: str) -> None:
    text, _ = BY_NAME.get(name, ("level=OFF", {}))
    expected = ServerOptions.of(**{name: [text]})
    assert ServerOptions.of(**{name: text}) == ServerOptions.of(**{name: (each for each in [text])}) == expected


@pytest.mark.parametrize("name", BY_NAME)
def test_settings_by_name_are_those_of_the_command_line(name: str) -> None:
    text, mapping = BY_NAME[name]
    flags = parse_flags(["--model-repository=/models", f"--{name.replace('_', '-')}={text}"]).options
    assert of(name, mapping) == of(name, text) == getattr(flags, name)
    assert of(name, {}) == of(name, []) == {}


def test_numbers_booleans_and_paths_become_text() -> None:
    settings = {"a": 1, "b": 0.5, "c": True, "d": False, "e": "text", "f": Path("/f")}
    texts = {"a": "1", "b": "0.5", "c": "true", "d": "false", "e": "text", "f": "/f"}
    assert of("backend_config", {"": settings}) == {"": texts}
    assert of("metrics_config", settings) == texts
    assert (of("model_repository", Path("/m")), of("log_file", Path("/l"))) == (("/m",), "/l")


def test_a_setting_without_a_name() -> None:
    assert of("backend_config", "default-max-batch-size=8") == {"": {"default-max-batch-size": "8"}}
    with pytest.raises(InvalidArgumentError, match=r"--host-policy expects <policy>,.* got 'cpu-cores=0-1'"):
        ServerOptions.of(model_repository="/m", host_policy="cpu-cores=0-1").check()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("strict_readiness", "false", "--strict-readiness must be True or False, got 'false'"),
        ("http_port", 8000.0, "--http-port must be a whole number, got 8000.0"),
        ("http_port", True, "--http-port must be a whole number, got True"),
        ("metrics_interval_ms", [1], "--metrics-interval-ms must be a number, got list"),
        ("id", 7, "--id must be text, got 7"),
        ("load_model", {"m": 1}, "--load-model must be a text or a list of texts, got dict"),
        ("load_model", ["m", 1], "each value of --load-model must be text, got 1"),
        ("load_model", None, "--load-model must be a text or a list of texts, got None"),
        ("trace_config", b"rate=1", "--trace-config must be a text or a list of texts, got bytes"),
        ("cache_config", 5, "--cache-config must be a dictionary, a text <name>,<setting>=<value> or"),
        (
            "cache_config",
            "local",
            "--cache-config: expected <name>,<setting>=<value> or <setting>=<value>, got 'local'",
        ),
        ("cache_config", {"size": 5}, "--cache-config=size must be a dictionary of settings, got 5"),
        (
            "cache_config",
            {"local": {"size": [5]}},
            "--cache-config=local,size must be text, a number or a boolean, got",
        ),
        ("cache_config", {"local": {5: "5"}}, "each setting of --cache-config=local must be text, got 5"),
        ("metrics_config", {"a": None}, "--metrics-config=a must be text, a number or a boolean, got None"),
        ("host_policy", {1: {}}, "each name in --host-policy must be text, got 1"),
    ],
)
def test_what_no_setting_can_be_made_of(name: str, value: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        ServerOptions.of(**{name: value})
    assert str(refusal.value).startswith(message)
