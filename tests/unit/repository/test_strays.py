"""What lies where nothing looks for it: each with its place and where it belongs."""

from pathlib import Path

import pytest

from charonia.config.findings import Finding
from charonia.repository.scan import scan


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def found(root: Path) -> list[Finding]:
    """Of the repository and of the model `m` in it."""
    seen = scan([str(root)])
    return [*seen.warnings, *(each for model in seen.models.values() for each in model.warnings)]


STRAYS = {
    "a folder v1": (("m/v1/model.onnx",), "m/v1", "plain number above 0", "rename it to '1'"),
    "a folder version2": (("m/version2/model.onnx",), "m/version2", "plain number above 0", "rename it to '2'"),
    "a folder 01": (("m/01/model.onnx",), "m/01", "without leading zeros", "rename it to '1'"),
    "a model beside": (("m/model.onnx",), "m/model.onnx", "in the model's folder itself", "m/1/model.onnx"),
    "a model of its own name beside": (
        ("m/densenet.onnx", "m/1/notes.txt"),
        "m/densenet.onnx",
        "beside the version folders",
        "m/1/densenet.onnx",
    ),
    "a nested model": (("m/m/1/model.onnx",), "m/m", "one folder too deep", "up into 'm'"),
    "a folder of another name": (("m/weights/model.onnx",), "m/weights", "one folder too deep", "to 'm/1'"),
    "config.pbtxt.txt": (
        ("m/1/model.onnx", "m/config.pbtxt.txt"),
        "m/config.pbtxt.txt",
        "read from config.pbtxt",
        "rename it to config.pbtxt",
    ),
    "config.pbtext": (("m/1/model.onnx", "m/config.pbtext"), "m/config.pbtext", "ignored", "rename it"),
    "Config.pbtxt": (("m/1/model.onnx", "m/Config.pbtxt"), "m/Config.pbtxt", "ignored", "rename it"),
    "confg.pbtxt": (("m/1/model.onnx", "m/confg.pbtxt"), "m/confg.pbtxt", "ignored", "rename it"),
    "config.pbtx": (("m/1/model.onnx", "m/config.pbtx"), "m/config.pbtx", "ignored", "rename it"),
    "config.json": (("m/1/model.onnx", "m/config.json"), "m/config.json", "ignored", "protobuf text"),
    "a config in the version folder": (
        ("m/1/model.onnx", "m/1/config.pbtxt"),
        "m/1/config.pbtxt",
        "read from the folder above",
        "m/config.pbtxt'",
    ),
    "a model in the repository": (
        ("m/1/model.onnx", "resnet.onnx"),
        "resnet.onnx",
        "belongs into a version folder",
        "resnet/1/model.onnx",
    ),
    "a configuration in the repository": (
        ("m/1/model.onnx", "config.pbtxt"),
        "config.pbtxt",
        "belongs into the folder of its model",
        "move it there",
    ),
    "an archive": (("m/1/model.onnx", "resnet.tar.gz"), "resnet.tar.gz", "only folders are models", "unpack it"),
}


@pytest.mark.parametrize("case", STRAYS)
def test_is_pointed_out(tmp_path: Path, case: str) -> None:
    paths, place, reason, remedy = STRAYS[case]
    make(tmp_path, *paths)
    (finding,) = found(tmp_path)
    assert finding.place is not None
    assert finding.place.file == str(tmp_path / place)
    assert reason in finding.message
    assert remedy in finding.remedy
    assert not finding.is_error


@pytest.mark.parametrize(
    "paths",
    [
        ("m/1/model.onnx", "m/config.pbtxt", "m/labels.txt", "m/README.md", "README.md", ".git/config"),
        ("m/1/model.py", "m/1/tokenizer/config.json", "m/config.pbtxt", "m/config.json", "m/env.tar.gz"),
        ("m/1/model.onnx", "m/2/model.onnx", "m/warmup/sample", "m/configs/other.pbtxt"),
        ("m/1/model.onnx", "m/model.onnx"),
        ("m/1/model.onnx", "m/assets/model.onnx"),
    ],
)
def test_what_belongs_there_or_does_no_harm_is_not(tmp_path: Path, paths: tuple[str, ...]) -> None:
    make(tmp_path, *paths)
    assert found(tmp_path) == []


@pytest.mark.parametrize(("given", "above"), [("m", "."), ("m/1", ".")])
def test_a_model_or_version_given_as_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, above: str
) -> None:
    make(tmp_path, "m/config.pbtxt", "m/1/model.onnx")
    absolute = found(tmp_path / given)
    assert any(f"--model-repository={tmp_path}" in each.remedy for each in absolute)
    monkeypatch.chdir(tmp_path)
    assert any(each.remedy == f"give --model-repository={above}" for each in found(Path(given)))


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    make(tmp_path, "m/1/model.onnx")
    (tmp_path / "gone").symlink_to("nowhere")
    (finding,) = found(tmp_path)
    assert "a link to 'nowhere', which does not exist" in str(finding)
