"""What all gRPC methods of one server share."""

from dataclasses import dataclass, field

from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.h2_limits import INT32_MAX
from inference_runtime.frontends.memory_budget import MemoryBudget
from inference_runtime.protocol.grpc_codec import InferDecoder


@dataclass(slots=True)
class GrpcContext:
    core: CorePort
    budget: MemoryBudget
    max_message_bytes: int = INT32_MAX
    compression_level: int = 0  # of answers to infer, for clients that accept gzip; 0: none
    decoder: InferDecoder = field(default_factory=InferDecoder)
