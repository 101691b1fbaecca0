"""`pb_utils.ModelConfig` (what `auto_complete_config` fills) and the look-ups in a configuration."""

from __future__ import annotations

import json
from typing import Any

_INPUT_FIELDS = ("name", "data_type", "dims", "optional")
_OUTPUT_FIELDS = ("name", "data_type", "dims")
_REQUIRED_FIELDS = ("name", "data_type", "dims")
_SCHEDULERS = ("sequence_batching", "ensemble_scheduling")
CONTRADICTS = "auto_complete_config contradicts"
"""How the server knows that what follows is the field of the configuration, then `: ` and the reason."""


class Contradiction(ValueError):
    """What `auto_complete_config` sets is not what the configuration says in the field `path`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class ModelConfig:
    """The configuration of a model, to be filled in. What is already set must agree with what is added."""

    def __init__(self, model_config: str) -> None:
        """`model_config` is the configuration as JSON, with Triton's field names."""
        self._model_config: dict[str, Any] = json.loads(model_config)

    def as_dict(self) -> dict[str, Any]:
        """The configuration; to be read only."""
        return self._model_config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Raises ValueError when the configuration has a larger one."""
        present = self._model_config.get("max_batch_size", 0)
        if present > max_batch_size:
            raise Contradiction(
                "max_batch_size",
                f"auto_complete_config sets max_batch_size {max_batch_size}, "
                f"but the configuration specified max_batch_size {present}; "
                f"write max_batch_size: {max_batch_size}, or remove it, or change that line of the model",
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Raises ValueError when the configuration has chosen another scheduler."""
        for scheduler in _SCHEDULERS:
            if scheduler in self._model_config:
                raise Contradiction(
                    scheduler,
                    f"auto_complete_config sets dynamic_batching, but the configuration has chosen {scheduler}; "
                    f"remove {scheduler}, or that line of the model",
                )
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input: dict[str, Any]) -> None:
        """Add an input with `name`, `data_type`, `dims` and maybe `optional`. Raises ValueError when it contradicts."""
        self._add("input", input, _INPUT_FIELDS)

    def add_output(self, output: dict[str, Any]) -> None:
        """Add an output with `name`, `data_type` and `dims`. Raises ValueError when it contradicts."""
        self._add("output", output, _OUTPUT_FIELDS)

    def set_model_transaction_policy(self, transaction_policy_dict: dict[str, Any]) -> None:
        """`{"decoupled": bool}`. Raises ValueError for other keys, or when the configuration says the opposite."""
        for key in transaction_policy_dict:
            if key != "decoupled":
                raise ValueError(f"model '{self._name}': a model transaction policy has 'decoupled' only, got '{key}'")
        policy = self._model_config.setdefault("model_transaction_policy", {})
        for key, value in transaction_policy_dict.items():
            if policy.setdefault(key, value) != value:
                raise Contradiction(
                    f"model_transaction_policy.{key}",
                    f"auto_complete_config sets decoupled {value}, but the configuration says {policy[key]}; "
                    f"write decoupled: {str(value).lower()}, or change that line of the model",
                )

    @property
    def _name(self) -> str:
        return str(self._model_config.get("name", ""))

    def _add(self, kind: str, tensor: dict[str, Any], fields: tuple[str, ...]) -> None:
        self._check_fields(kind, tensor, fields)
        tensors = self._model_config.setdefault(kind, [])
        for index, present in enumerate(tensors):
            if present["name"] == tensor["name"]:
                self._merge(f"{kind}[{index}]", present, tensor)
                return
        tensors.append(dict(tensor))

    def _check_fields(self, kind: str, tensor: dict[str, Any], fields: tuple[str, ...]) -> None:
        label = f"model '{self._name}': {kind} '{tensor.get('name', '?')}' in auto_complete_config"
        for field in tensor:
            if field not in fields:
                raise ValueError(f"{label} has the property '{field}'; only {', '.join(fields)} are allowed")
        for field in _REQUIRED_FIELDS:
            if field not in tensor:
                raise ValueError(f"{label} is missing the property '{field}'")

    def _merge(self, path: str, present: dict[str, Any], tensor: dict[str, Any]) -> None:
        for field in tensor:
            was = present.get(field)
            unset = was in (None, "TYPE_INVALID", []) or (field == "optional" and was is False)
            if not unset and was != tensor[field]:
                kind, wanted = path.split("[")[0], tensor[field]
                raise Contradiction(
                    f"{path}.{field}",
                    f"{kind} '{tensor['name']}' has {field} {was} in the configuration, but the model provides "
                    f"{wanted} (auto_complete_config); "
                    f"write {field}: {str(wanted).lower() if isinstance(wanted, bool) else wanted}, "
                    "or change that line of the model",
                )
            present[field] = tensor[field]


def get_input_config_by_name(model_config: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The properties of an input, None if there is none of this name."""
    return _by_name(model_config.get("input", ()), name)


def get_output_config_by_name(model_config: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The properties of an output, None if there is none of this name."""
    return _by_name(model_config.get("output", ()), name)


def using_decoupled_model_transaction_policy(model_config: dict[str, Any]) -> bool:
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def _by_name(tensors: Any, name: str) -> dict[str, Any] | None:
    for properties in tensors:
        if properties["name"] == name:
            return dict(properties) if type(properties) is not dict else properties
    return None
