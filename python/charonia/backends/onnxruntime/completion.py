"""Completing a configuration from the inputs and outputs of the model."""

from charonia.backends.base import ModelContext
from charonia.backends.onnxruntime.signature import Signature
from charonia.config.complete import DEFAULT_MAX_BATCH_SIZE, Completed, complete_from_model
from charonia.core.errors import InvalidArgumentError

_MAX_BATCH_SIZE_SETTING = "default-max-batch-size"


def complete(context: ModelContext, signature: Signature, model_file: str) -> Completed:
    """`complete_from_model` with the server's settings. Raises InvalidArgumentError for one that is no number."""
    return complete_from_model(
        context.config,
        signature.inputs,
        signature.outputs,
        model_file=model_file,
        default_max_batch_size=_default_max_batch_size(context),
        places=context.places,
    )


def _default_max_batch_size(context: ModelContext) -> int:
    text = context.backend_config.get(_MAX_BATCH_SIZE_SETTING, str(DEFAULT_MAX_BATCH_SIZE))
    if not text.isdecimal():
        raise InvalidArgumentError(
            f"--backend-config=onnxruntime,{_MAX_BATCH_SIZE_SETTING}={text}: expected a whole number from 0 on"
        )
    return int(text)
