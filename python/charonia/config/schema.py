"""The message classes of the model configuration (config.pbtxt), typed by the generated stubs.

The classes live in a descriptor pool of our own (`proto/pool.py`) under the package name `inference`.
"""

from typing import TYPE_CHECKING

# One import of many names marked for re-export; the sorter would make it one statement a name.
# ruff: noqa: I001
if TYPE_CHECKING:
    from charonia.config.proto.model_config_pb2 import (
        BatchInput as BatchInput,
        BatchOutput as BatchOutput,
        DataType as DataType,
        ModelConfig as ModelConfig,
        ModelDynamicBatching as ModelDynamicBatching,
        ModelEnsembling as ModelEnsembling,
        ModelInput as ModelInput,
        ModelInstanceGroup as ModelInstanceGroup,
        ModelMetrics as ModelMetrics,
        ModelOperations as ModelOperations,
        ModelOptimizationPolicy as ModelOptimizationPolicy,
        ModelOutput as ModelOutput,
        ModelParameter as ModelParameter,
        ModelQueuePolicy as ModelQueuePolicy,
        ModelRateLimiter as ModelRateLimiter,
        ModelRepositoryAgents as ModelRepositoryAgents,
        ModelResponseCache as ModelResponseCache,
        ModelSequenceBatching as ModelSequenceBatching,
        ModelTensorReshape as ModelTensorReshape,
        ModelTransactionPolicy as ModelTransactionPolicy,
        ModelVersionPolicy as ModelVersionPolicy,
        ModelWarmup as ModelWarmup,
    )
else:
    from charonia.config.proto.pool import enum, message

    DataType = enum("DataType")
    ModelRateLimiter = message("ModelRateLimiter")
    ModelInstanceGroup = message("ModelInstanceGroup")
    ModelTensorReshape = message("ModelTensorReshape")
    ModelInput = message("ModelInput")
    ModelOutput = message("ModelOutput")
    BatchInput = message("BatchInput")
    BatchOutput = message("BatchOutput")
    ModelVersionPolicy = message("ModelVersionPolicy")
    ModelOptimizationPolicy = message("ModelOptimizationPolicy")
    ModelQueuePolicy = message("ModelQueuePolicy")
    ModelDynamicBatching = message("ModelDynamicBatching")
    ModelSequenceBatching = message("ModelSequenceBatching")
    ModelEnsembling = message("ModelEnsembling")
    ModelParameter = message("ModelParameter")
    ModelWarmup = message("ModelWarmup")
    ModelOperations = message("ModelOperations")
    ModelTransactionPolicy = message("ModelTransactionPolicy")
    ModelRepositoryAgents = message("ModelRepositoryAgents")
    ModelResponseCache = message("ModelResponseCache")
    ModelMetrics = message("ModelMetrics")
    ModelConfig = message("ModelConfig")
