"""Settings that do nothing are told, and refuse no start."""

from pathlib import Path

import pytest

from charonia.option_remarks import option_remarks
from charonia.options import ServerOptions


def remarks(**settings: object) -> list[str]:
    options = ServerOptions(model_repository=("models",), **settings)  # type: ignore[arg-type]
    options.check()
    return option_remarks(options)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate_limit_resource": ("memory:4",)}, "no effect without --rate-limit=execution_count"),
        ({"grpc_server_cert": "server.crt"}, "no effect without --grpc-use-ssl=true"),
        ({"trace_config": ("triton,file=/nowhere/at/all/trace.json",)}, "there is no folder /nowhere/at/all"),
        ({"backend_directory": "/nowhere/at/all"}, "--backend-directory=/nowhere/at/all: there is no such folder"),
        ({"repoagent_directory": "/nowhere/at/all"}, "--repoagent-directory=/nowhere/at/all: there is no such folder"),
        ({"backend_config": {"onnxrutime": {"a": "b"}}}, "no effect; did you mean 'onnxruntime'?"),
        ({"backend_config": {"tensorflow": {"version": "2"}}}, "(there are identity, onnxruntime, python"),
        ({"host_policy": {"cpu": {"numa-node": "0"}}}, "--host-policy=cpu,numa-node"),
    ],
)
def test_what_does_nothing_is_told(settings: dict[str, object], words: str) -> None:
    (said,) = remarks(**settings)
    assert words in said


def test_what_counts_is_not(tmp_path: Path) -> None:
    assert remarks() == []
    assert remarks(rate_limit="execution_count", rate_limit_resource=("memory:4",)) == []
    assert remarks(grpc_use_ssl=True, grpc_server_cert="server.crt", grpc_server_key="server.key") == []
    assert remarks(allow_grpc=False, grpc_server_cert="server.crt") == []
    assert remarks(trace_config=(f"triton,file={tmp_path}/trace.json",)) == []
    assert remarks(trace_config=("triton,file=trace.json",)) == []
    assert remarks(backend_config={"": {"a": "b"}, "python": {"execution": "inline"}}) == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model.py").touch()
    assert remarks(backend_directory=str(tmp_path), backend_config={"mine": {"a": "b"}}) == []
    assert remarks(trace_config=("mode=opentelemetry", "triton,file=/nowhere/at/all/trace.json")) == []
