"""The gRPC front end: HTTP/2 on its own port, with or without TLS."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from inference_runtime.frontends.core_port import CorePort, InferenceCore
from inference_runtime.frontends.grpc_context import GrpcContext
from inference_runtime.frontends.grpc_head import CallHeads, Method
from inference_runtime.frontends.grpc_methods import method_table
from inference_runtime.frontends.grpc_unary import RefusedMethod
from inference_runtime.frontends.h2_connection import H2Connection
from inference_runtime.frontends.h2_limits import INT32_MAX, H2Limits
from inference_runtime.frontends.h2_watch import H2Timeouts
from inference_runtime.frontends.header_forwarding import HeaderPattern, forwarding
from inference_runtime.frontends.listener import Listener
from inference_runtime.frontends.memory_budget import MemoryBudget
from inference_runtime.frontends.restrictions import Restrictions
from inference_runtime.frontends.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class GrpcOptions:
    reuse_port: bool = False
    max_connections: int = 10_000
    max_message_bytes: int = INT32_MAX
    unfinished_bytes: int = 4 << 30  # of requests that have not fully arrived, over all connections
    compression_level: int = 0  # zlib's, of answers to infer for clients that accept gzip; 0: none
    restrictions: Restrictions = field(default_factory=dict)  # --grpc-restricted-protocol
    forwarded: HeaderPattern | None = None  # --grpc-header-forward-pattern
    tls: TlsFiles | None = None
    limits: H2Limits = field(default_factory=H2Limits)
    timeouts: H2Timeouts = field(default_factory=H2Timeouts)


async def serve_grpc(
    core: CorePort, *, host: str, port: int, options: GrpcOptions | None = None
) -> Listener:
    """Raises Unavailable when the port can not be had."""
    return await serve_methods(
        core,
        lambda context: method_table(context, core),
        host=host,
        port=port,
        options=options or GrpcOptions(),
    )


async def serve_methods(
    core: InferenceCore,
    methods: Callable[[GrpcContext], Mapping[bytes, Method]],
    *,
    host: str,
    port: int,
    options: GrpcOptions,
) -> Listener:
    """Inference by the core; `methods` makes the table of all methods."""
    listener = Listener(options.max_connections)
    context = GrpcContext(
        core=forwarding(core, options.forwarded),
        budget=MemoryBudget(options.unfinished_bytes),
        max_message_bytes=options.max_message_bytes,
        compression_level=options.compression_level,
        stopping=lambda: listener.stopping,
    )
    heads = CallHeads(methods(context), RefusedMethod(), options.restrictions)

    def connection() -> H2Connection:
        return H2Connection(heads.describe, options.limits, options.timeouts, listener)

    tls = options.tls.context() if options.tls is not None else None
    await listener.start(connection, host, port, reuse_port=options.reuse_port, tls=tls)
    return listener
