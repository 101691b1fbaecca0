"""The parts of KServe's resource definitions that our manifests use, by kind: names and JSON types of fields.

From `config/crd/full` of KServe: `serving.kserve.io_servingruntimes` (v1alpha1), `serving.kserve.io_inferenceservices`
(v1beta1). Containers and pods are Kubernetes' own there, and are checked as such.
"""

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_MAP = {"type": "object", "additionalProperties": _TEXT}


def _object(required: tuple[str, ...] = (), **properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _resource(version: str, kind: str, spec: dict[str, object]) -> dict[str, object]:
    return _object(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": f"serving.kserve.io/{version}"},
        kind={"const": kind},
        metadata={"type": "object", "required": ["name"]},
        spec=spec,
    )


FORMAT = _object(
    ("name",), name=_TEXT, version=_TEXT, autoSelect={"type": "boolean"}, priority={"type": "integer", "minimum": 1}
)
SERVING_RUNTIME = _resource(
    "v1alpha1",
    "ServingRuntime",
    _object(
        ("containers",),
        annotations=_MAP,
        labels=_MAP,
        multiModel={"type": "boolean"},
        disabled={"type": "boolean"},
        replicas={"type": "integer"},
        protocolVersions=_TEXTS,
        supportedModelFormats={"type": "array", "items": FORMAT},
        containers={"type": "array", "items": {"type": "object"}},
        volumes={"type": "array", "items": {"type": "object"}},
        nodeSelector=_MAP,
    ),
)
INFERENCE_SERVICE = _resource(
    "v1beta1",
    "InferenceService",
    _object(
        ("predictor",),
        predictor=_object(
            minReplicas={"type": "integer"},
            maxReplicas={"type": "integer"},
            serviceAccountName=_TEXT,
            terminationGracePeriodSeconds={"type": "integer"},
            model=_object(
                ("modelFormat",),
                modelFormat=_object(("name",), name=_TEXT, version=_TEXT),
                runtime=_TEXT,
                protocolVersion=_TEXT,
                storageUri=_TEXT,
                args=_TEXTS,
                env={"type": "array"},
                resources={"type": "object"},
            ),
        ),
    ),
)
