"""What all gRPC methods of one server share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from inference_runtime.errors import RuntimeFault, Unavailable
from inference_runtime.frontends.core_port import InferenceCore
from inference_runtime.frontends.h2_limits import INT32_MAX
from inference_runtime.frontends.h2_stream import H2Stream
from inference_runtime.frontends.memory_budget import MemoryBudget
from inference_runtime.protocol.grpc_codec import InferDecoder
from inference_runtime.spec.messages import InferRequest

_SHUTTING_DOWN: Final = "GRPC server is shutting down and has stopped accepting new requests."


@dataclass(slots=True)
class GrpcContext:
    core: InferenceCore
    budget: MemoryBudget
    max_message_bytes: int = INT32_MAX
    compression_level: int = 0  # of answers to infer, for clients that accept gzip; 0: none
    decoder: InferDecoder = field(default_factory=InferDecoder)
    stopping: Callable[[], bool] = lambda: False  # no new connection is accepted any more

    def packs_for(self, stream: H2Stream) -> bool:
        """Whether the answers of an inference are compressed on this stream."""
        return self.compression_level > 0 and "gzip" in stream.head.accepts

    def text_of(self, fault: RuntimeFault, request: InferRequest) -> str:
        """What the client is told; of a server that stops it is gRPC's word and not the router's."""
        if request.version is None and isinstance(fault, Unavailable) and self.stopping():
            return _SHUTTING_DOWN
        return fault.text
