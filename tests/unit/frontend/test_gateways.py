"""What the paths of platforms stand for, by their settings."""

import pytest

from charonia.core.errors import InvalidArgumentError, UnavailableError
from charonia.frontend.gateways import (
    OF_MULTI_MODEL,
    SageMakerPaths,
    SageMakerSettings,
    VertexAiSettings,
    default_model,
    inference_path,
)

ROUTES = {"AIP_HEALTH_ROUTE": "/health", "AIP_PREDICT_ROUTE": "/predict"}


class Published:
    """Keeps what was published last, as the wire would."""

    def __init__(self):
        self.paths = {}

    def __call__(self, paths):
        self.paths = dict(paths)

    def meant(self, path):
        return self.paths[path][0]


def test_names_in_paths_are_quoted():
    assert inference_path("a/b c") == "/v2/models/a%2Fb%20c/infer"


def test_paths_of_sagemaker():
    published = Published()
    environment = {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "m", "SAGEMAKER_TRITON_PING_MODE": "live"}
    paths = SageMakerPaths(SageMakerSettings.of(environment), published)
    paths.open()
    assert (published.meant("/ping"), published.meant("/invocations")) == ("/v2/health/live", "/v2/models/m/infer")
    paths.add("0a1b", "an archive.tar.gz")
    assert published.paths["/models/0a1b/invoke"] == ("/v2/models/an%20archive.tar.gz/infer", OF_MULTI_MODEL)
    paths.remove("0a1b")
    paths.remove("never there")
    assert set(published.paths) == {"/ping", "/invocations"}


def test_sagemaker_without_variables():
    settings = SageMakerSettings.of({"SAGEMAKER_TRITON_PING_MODE": ""})
    assert (settings.ping, settings.inference, settings.models) == ("ready", "infer", "/opt/ml/models")
    published = Published()
    SageMakerPaths(settings, published).open()
    assert set(published.paths) == {"/ping"}


@pytest.mark.parametrize("variable", ["SAGEMAKER_TRITON_PING_MODE", "SAGEMAKER_TRITON_INFERENCE_TYPE"])
def test_variables_of_sagemaker_that_make_no_sense(variable):
    with pytest.raises(InvalidArgumentError, match=f"Invalid {variable} 'guess': must be one of"):
        SageMakerSettings.of({variable: "guess"})


def test_failures_of_multi_model_endpoints():
    def status(message):
        return next(status for words, status in OF_MULTI_MODEL if words in message)

    full = (
        "CUDA out of memory",
        "CUDA_OUT_OF_MEMORY",
        "MemoryError()",
        "Failed to allocate memory for requested buffer",
    )
    assert {status(message) for message in full} == {507}
    assert status("unexpected shape") == 400


def test_paths_of_vertex_ai():
    settings = VertexAiSettings.of(ROUTES)
    assert settings.paths() == {"/health": ("/v2/health/ready", ())}
    assert settings.paths("m") == {"/health": ("/v2/health/ready", ()), "/predict": ("/v2/models/m/infer", ())}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"AIP_HEALTH_ROUTE": ""}, "AIP_HEALTH_ROUTE is not defined for Vertex AI endpoint"),
        ({"AIP_PREDICT_ROUTE": ""}, "API_PREDICT_ROUTE is not defined for Vertex AI endpoint: set AIP_PREDICT_ROUTE"),
        ({"AIP_PREDICT_ROUTE": "predict"}, "AIP_PREDICT_ROUTE must be a path such as /v1/predict, got 'predict'"),
        ({"AIP_PREDICT_ROUTE": "/health"}, "must be two paths, got '/health'"),
    ],
)
def test_routes_that_make_no_sense(change, sentence):
    with pytest.raises(InvalidArgumentError, match=sentence):
        VertexAiSettings.of({**ROUTES, **change})


def test_the_default_model():
    assert default_model("", {"m"}) == "m"
    assert default_model("n", {"m", "n"}) == "n"
    for wanted, ready in (("", {"m", "n"}), ("", set()), ("o", {"m"})):
        with pytest.raises(UnavailableError, match="Expect the"):
            default_model(wanted, ready)
