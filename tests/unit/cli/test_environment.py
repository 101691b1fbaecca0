"""What Vertex AI's variables mean for a server, and ports that SageMaker allows."""

import pytest

from charonia.cli.parse import parse_flags
from charonia.core.errors import InvalidArgumentError

ON_VERTEX_AI = {"AIP_MODE": "PREDICTION", "AIP_HTTP_PORT": "8181", "AIP_STORAGE_URI": "/mnt/models"}
REPOSITORY = "--model-repository=/models"


def open_doors(options):
    return [name for name in ("http", "grpc", "metrics", "sagemaker", "vertex_ai") if getattr(options, f"allow_{name}")]


def test_on_vertex_ai_its_door_alone_is_open():
    options = parse_flags([], ON_VERTEX_AI).options
    assert open_doors(options) == ["metrics", "vertex_ai"]
    assert (options.vertex_ai_port, options.model_repository) == (8181, ("/mnt/models",))


def test_flags_go_before_the_environment():
    flags = [REPOSITORY, "--allow-grpc=true", "--allow-vertex-ai=false", "--vertex-ai-port=8282"]
    options = parse_flags(flags, ON_VERTEX_AI).options
    assert open_doors(options) == ["grpc", "metrics"]
    assert (options.vertex_ai_port, options.model_repository) == (8282, ("/models",))


def test_elsewhere_the_door_is_closed():
    for environment in ({}, {"AIP_MODE": "TRAINING"}, {"AIP_HTTP_PORT": ""}):
        options = parse_flags([REPOSITORY], environment).options
        assert open_doors(options) == ["http", "grpc", "metrics"]
        assert options.vertex_ai_port == 8080


def test_a_port_that_is_none():
    with pytest.raises(InvalidArgumentError, match="AIP_HTTP_PORT: expected a whole number, got 'http'"):
        parse_flags([REPOSITORY], {"AIP_HTTP_PORT": "http"})


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--sagemaker-safe-port-range=8081-9000"], "The server cannot listen to HTTP requests at port 8000"),
        (["--allow-http=0", "--sagemaker-safe-port-range=8081-9000"], "The server cannot listen to GRPC requests"),
        (["--sagemaker-safe-port-range=9000"], "must be two ports"),
        (["--sagemaker-safe-port-range=9000-8000"], "must be two ports"),
        (["--sagemaker-safe-port-range=a-b"], "must be two ports"),
        (["--sagemaker-port=8000"], "--http-port and --sagemaker-port are both 8000"),
        (["--allow-vertex-ai=1"], "--sagemaker-port and --vertex-ai-port are both 8080"),
        (["--sagemaker-port=70000"], "--sagemaker-port must be from 0 to 65535"),
    ],
)
def test_ports_that_do_not_go_together(flags, sentence):
    with pytest.raises(InvalidArgumentError) as refusal:
        parse_flags([REPOSITORY, "--allow-sagemaker=true", *flags])
    assert sentence in str(refusal.value)


def test_ports_in_the_range():
    flags = ["--sagemaker-safe-port-range=8000-8002", "--sagemaker-port=8080"]
    assert parse_flags([REPOSITORY, "--allow-sagemaker=true", *flags]).options.sagemaker_port == 8080
    assert parse_flags([REPOSITORY, "--sagemaker-safe-port-range=9000-9001"]).options.http_port == 8000
