"""The runner a config wants: with sequences or without."""

import asyncio

from inference_runtime.instances.request_runner import RequestRunner
from inference_runtime.instances.runner import BatchRunner
from inference_runtime.instances.sequence_runner import SequenceBatchRunner, SequenceRequestRunner
from inference_runtime.spec.model_config import ModelConfig


def batch_runner(config: ModelConfig, *, model_name: str, version: int) -> BatchRunner:
    """One for all instances of a version."""
    sequences = config.sequence_batching
    if sequences is None:
        return BatchRunner(config, model_name=model_name, version=version)
    return SequenceBatchRunner(config, sequences, model_name=model_name, version=version)


def request_runner(
    config: ModelConfig, *, model_name: str, version: int, loop: asyncio.AbstractEventLoop
) -> RequestRunner:
    """For one instance of a backend that answers request by request."""
    sequences = config.sequence_batching
    if sequences is None:
        return RequestRunner(config, model_name=model_name, version=version, loop=loop)
    return SequenceRequestRunner(
        config, sequences, model_name=model_name, version=version, loop=loop
    )
