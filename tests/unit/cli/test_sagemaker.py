"""What `serve` makes of SageMaker's variables."""

import pytest

from charonia.cli.parse import parse_flags
from charonia.cli.sagemaker import variables_and_flags
from charonia.core.errors import InvalidArgumentError, NotFoundError

MODEL = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"


@pytest.fixture
def single(tmp_path):
    (tmp_path / "model" / "m" / "1").mkdir(parents=True)
    return tmp_path / "model"


def test_one_model(single, tmp_path):
    variables, flags = variables_and_flags({}, single)
    options = parse_flags(flags).options
    assert variables == {MODEL: "m", "SAGEMAKER_TRITON_PING_MODE": "ready"}
    assert (options.model_repository, options.load_model) == ((str(single),), ("m",))
    assert (options.allow_sagemaker, options.allow_http, options.allow_grpc, options.allow_metrics) == (
        True,
        False,
        False,
        False,
    )
    assert options.model_namespacing


def test_many_models(single, tmp_path):
    variables, flags = variables_and_flags({"SAGEMAKER_MULTI_MODEL": "true"}, single, tmp_path / "empty")
    options = parse_flags(flags).options
    assert variables == {"SAGEMAKER_TRITON_PING_MODE": "live"}
    assert (options.model_repository, options.load_model) == ((str(tmp_path / "empty"),), ())
    assert (tmp_path / "empty").is_dir()


def test_variables_are_flags(single):
    environment = {
        MODEL: "m",
        "SAGEMAKER_BIND_TO_PORT": "8085",
        "SAGEMAKER_SAFE_PORT_RANGE": "9000-9010",
        "SAGEMAKER_TRITON_ALLOW_GRPC": "true",
        "SAGEMAKER_TRITON_GRPC_PORT": "9001",
        "SAGEMAKER_TRITON_LOG_VERBOSE": "true",
        "SAGEMAKER_TRITON_THREAD_COUNT": "2",
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1024",
        "SAGEMAKER_TRITON_OVERRIDE_PING_MODE": "live",
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--id='a name' --exit-timeout-secs=5",
    }
    variables, flags = variables_and_flags(environment, single)
    options = parse_flags(flags).options
    assert variables["SAGEMAKER_TRITON_PING_MODE"] == "live"
    assert (options.sagemaker_port, options.grpc_port, options.sagemaker_thread_count) == (8085, 9001, 2)
    assert (options.log_verbose, options.id, options.exit_timeout_secs) == (1, "a name", 5)


def test_it_must_be_clear_which_model(single, tmp_path):
    with pytest.raises(NotFoundError, match=f"Directory with provided {MODEL} absent does not exist"):
        variables_and_flags({MODEL: "absent"}, single)
    (single / "n").mkdir()
    with pytest.raises(InvalidArgumentError, match="there are: m, n"):
        variables_and_flags({}, single)
    with pytest.raises(InvalidArgumentError, match="there are: none"):
        variables_and_flags({}, tmp_path / "nowhere")
    (single / "config.pbtxt").touch()
    with pytest.raises(InvalidArgumentError, match="is the folder of a model"):
        variables_and_flags({}, single)


def test_a_kind_of_inference_that_is_none(single):
    with pytest.raises(InvalidArgumentError, match="Invalid SAGEMAKER_TRITON_INFERENCE_TYPE 'guess'"):
        variables_and_flags({"SAGEMAKER_TRITON_INFERENCE_TYPE": "guess"}, single)
