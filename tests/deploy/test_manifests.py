"""The manifests of `deploy/`: right by their schemas, and what they say of the server holds."""

import importlib.util
import json
import re
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from charonia.cli.flags import FLAGS
from charonia.cli.parse import parse_flags
from charonia.options import ServerOptions
from tests.deploy.kserve import INFERENCE_SERVICE, SERVING_RUNTIME

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "charonia.yaml").read_text()))
RUNTIME = yaml.safe_load((DEPLOY / "kserve" / "serving-runtime.yaml").read_text())
SERVICE = yaml.safe_load((DEPLOY / "kserve" / "inference-service.yaml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
DEPLOYMENT = KUBERNETES[0]


def pod(containers, **more):
    """A pod of containers, to be checked as Kubernetes checks it."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **more}}


def options(command):
    """What the server makes of a command line that begins with its name."""
    assert command[0] == "tritonserver"
    parsed = parse_flags(command[1:])
    parsed.options.check()
    return parsed.options


@pytest.mark.parametrize("resource", KUBERNETES, ids=lambda resource: resource["kind"])
def test_the_resources_of_kubernetes(resource):
    kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)


def test_a_wrong_resource_is_refused():
    wrong = json.loads(json.dumps(DEPLOYMENT))
    wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_the_serving_runtime_of_kserve():
    jsonschema.validate(RUNTIME, SERVING_RUNTIME)
    container = RUNTIME["spec"]["containers"]
    kubernetes_validate.validate(pod(container), kubernetes_validate.latest_version(), strict=True)


def test_the_inference_service_of_kserve():
    jsonschema.validate(SERVICE, INFERENCE_SERVICE)
    model = SERVICE["spec"]["predictor"]["model"]
    assert model["runtime"] == RUNTIME["metadata"]["name"]
    assert model["modelFormat"]["name"] in [each["name"] for each in RUNTIME["spec"]["supportedModelFormats"]]
    assert model["protocolVersion"] in RUNTIME["spec"]["protocolVersions"]


def test_ports_and_probes_are_those_of_the_command():
    container = DEPLOYMENT["spec"]["template"]["spec"]["containers"][0]
    served = options(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": served.http_port, "grpc": served.grpc_port, "metrics": served.metrics_port}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "http"


def test_kserve_finds_the_ports():
    served = options(RUNTIME["spec"]["containers"][0]["args"])
    ports = [port["containerPort"] for port in RUNTIME["spec"]["containers"][0]["ports"]]
    assert ports == [served.http_port]
    assert RUNTIME["spec"]["annotations"]["prometheus.kserve.io/port"] == str(served.metrics_port)


def test_the_pod_lives_longer_than_its_server_stops():
    template = DEPLOYMENT["spec"]["template"]["spec"]
    served = options(template["containers"][0]["args"])
    assert template["terminationGracePeriodSeconds"] > served.drain_delay_secs + served.exit_timeout_secs
    probe = template["containers"][0]["readinessProbe"]
    assert served.drain_delay_secs > probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"]


def test_the_dockerfile_starts_the_server_that_there_is():
    command = json.loads(re.search(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[1])
    assert options(command).model_repository == ("/models",)
    exposed = {int(port) for port in re.search(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)[1].split()}
    defaults = ServerOptions()
    assert exposed == {defaults.http_port, defaults.grpc_port, defaults.metrics_port}
    compile(json.loads(re.search(r"CMD (\[\"python.*\])", DOCKERFILE)[1])[2], "HEALTHCHECK", "exec")


def test_the_readme_of_the_folder_names_flags_that_there_are():
    named = re.findall(r"--([a-z][a-z-]+)", (DEPLOY / "README.md").read_text())
    of_docker = {"build-arg", "rm"}
    assert set(named) - of_docker <= set(FLAGS)


def test_sagemaker_finds_its_command_in_the_image():
    (module,) = re.findall(r"exec python -m ([a-z.]+)", DOCKERFILE)
    assert importlib.util.find_spec(module)
    assert "/usr/local/bin/serve" in DOCKERFILE
