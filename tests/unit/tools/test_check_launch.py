"""`charonia check` with a launch line: sections that it turns on, resources that it gives."""

from pathlib import Path

import pytest

from charonia.config.findings import Finding
from charonia.config.model_config import ConfigOptions
from charonia.options import ServerOptions
from charonia.repository.inspection import read_model
from charonia.repository.scan import scan
from charonia.tools.check.launch import beside_launch_line

LIMITED = """
    instance_group [ {
        rate_limiter { resources [ { name: "memory" count: 4 }, { name: "key" global: true count: 1 } ] }
    } ]
"""
CACHED = "response_cache { enable: true }"


def findings(folder: Path, config: str, **flags: object) -> list[Finding]:
    (folder / "m" / "1").mkdir(parents=True)
    (folder / "m" / "config.pbtxt").write_text(f'backend: "identity" {config}')
    reading = read_model(scan([str(folder)]).models["m"], ConfigOptions())
    options = ServerOptions(model_repository=(str(folder),), **flags)  # type: ignore[arg-type]
    return list(beside_launch_line(reading.loaded.config, reading.loaded.places, options))


@pytest.mark.parametrize(
    ("config", "words"), [(LIMITED, "without --rate-limit=execution_count"), (CACHED, "without --cache-config")]
)
def test_a_section_that_no_flag_turns_on_is_a_warning(tmp_path: Path, config: str, words: str) -> None:
    (finding,) = findings(tmp_path, config)
    assert not finding.is_error
    assert finding.place is not None
    assert words in finding.message


def test_turned_on_there_is_nothing_to_say(tmp_path: Path) -> None:
    flags = {"rate_limit": "execution_count", "cache_config": {"local": {"size": "1000"}}}
    assert findings(tmp_path, LIMITED + CACHED, **flags) == []


def test_a_resource_of_which_there_is_too_little_is_an_error(tmp_path: Path) -> None:
    flags = {"rate_limit": "execution_count", "rate_limit_resource": ("memory:2", "memory:3:1")}
    memory, key = findings(tmp_path, LIMITED, **flags)
    assert memory.is_error
    assert key.is_error
    assert "needs 4 of the resource 'memory', and there is 3" in memory.message
    assert "needs 1 of the resource 'key', and there is 0" in key.message
    enough = {"rate_limit": "execution_count", "rate_limit_resource": ("memory:2", "memory:4:1", "key:1")}
    assert findings(tmp_path / "enough", LIMITED, **enough) == []
