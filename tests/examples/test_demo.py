"""The example repository, its models from PyPI packages, and the code of the README."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as httpclient

from charonia.api import Server
from tests.models.gated import PATIENCE_S

ROOT = Path(__file__).parents[2]
pytest.importorskip("magika", reason="the packages of the example models are not installed")
pytest.importorskip("rapidocr", reason="the packages of the example models are not installed")
pytest.importorskip("cv2", reason="the packages of the example models are not installed")

from examples.demo import invite, parse, show_file_types, show_text  # noqa: E402
from examples.file_type import file_type_input  # noqa: E402
from examples.layout import lay_out  # noqa: E402


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repository = lay_out(tmp_path_factory.mktemp("demo") / "demo-repository")
    with Server(repository, http_port=0, grpc_port=0) as running:
        yield running


def test_the_closing_words_name_every_door_and_the_live_page(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["demo", "--http-port=1", "--grpc-port=2", "--metrics-port=3"])
    invite(parse())
    text = capsys.readouterr().out
    for address in ("http://localhost:1/v2", "localhost:2", "http://localhost:3/metrics", "http://localhost:3/live"):
        assert f" {address}" in text


def test_file_types_in_process(server):
    labels = server.model("file_type").loaded.labels["target_label"]
    model = server.model("file_type")
    paths = {"README.md": "markdown", "Makefile": "makefile", "examples/demo.py": "python", "pyproject.toml": "toml"}
    rows = np.concatenate([file_type_input((ROOT / path).read_bytes()) for path in paths])
    found = model.infer(bytes=rows)["target_label"].argmax(axis=1)
    assert [labels[index] for index in found] == list(paths.values())


@pytest.mark.parametrize(
    ("content", "label"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(8) + b"IHDR" + bytes(400), "png"),
        (b"", None),
        (b"#!/bin/sh\nset -e\necho hello\n" * 9, "shell"),
    ],
)
def test_other_contents(server, content, label):
    found = server.model("file_type").infer(bytes=file_type_input(content))["target_label"]
    assert found.shape[0] == 1
    np.testing.assert_allclose(found.sum(), 1, atol=1e-3)
    if label:
        assert server.model("file_type").loaded.labels["target_label"][found.argmax()] == label


def test_the_demos_own_questions_over_http(server, capsys):
    with httpclient.InferenceServerClient(f"localhost:{server.ports['http']}", network_timeout=PATIENCE_S) as client:
        assert show_file_types(client)
        assert show_text(client, "Any words")
    assert 'reads "Any words"' in capsys.readouterr().out


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_the_readmes_code(server, monkeypatch, capsys):
    """As printed, with the demo's port and folder replaced by the test's."""
    monkeypatch.chdir(ROOT)
    first, second = blocks("README.md")
    names = {}
    exec(first.replace("localhost:8000", f"localhost:{server.ports['http']}"), names)
    assert "markdown" in capsys.readouterr().out
    repository = server._parts.options.model_repository[0]
    exec(second.replace("demo-repository", repository), names)
    labels = server.model("file_type").loaded.labels["target_label"]
    assert labels[int(capsys.readouterr().out)] == "markdown"


def test_the_demo_from_start_to_end(tmp_path):
    """`make demo ONCE=1` without its set-up."""
    from tests.examples.free_ports import free_ports

    http, grpc, metrics = free_ports(3)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "examples.demo", "--once", "--text", "Snail shell"),
            *("--http-port", str(http), "--grpc-port", str(grpc), "--metrics-port", str(metrics)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert 'reads "Snail shell"' in ended.stdout
    assert "README.md          is markdown" in ended.stdout
