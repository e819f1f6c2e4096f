"""Benchmarks in the API's description."""

from webapp.benchmarks.choices import BenchmarkProtocol, BenchmarkState
from webapp.benchmarks.load_plan import (
    DEFAULT_LADDER,
    DEFAULT_WINDOW_SECONDS,
    MAX_BATCH,
    MAX_CONCURRENCY,
    MAX_RUNGS,
    WINDOW_SECONDS,
)
from webapp.core.json_schema import (
    OBJECT,
    array,
    body,
    flag,
    listed,
    maybe,
    milliseconds,
    moment,
    number,
    one_of,
    record,
    seconds,
    shape,
    text,
    whole,
)
from webapp.jobs.schema import operation_with

PROTOCOL = one_of(BenchmarkProtocol.values)
STATE = one_of(BenchmarkState.values)
_RUNG = whole("Requests in flight at once.", minimum=1, maximum=MAX_CONCURRENCY)
POINT = shape(
    "BenchmarkPoint",
    {
        "concurrency": _RUNG,
        "throughput": number("Inferences per second: requests × batch size.", minimum=0),
        "latency_ms": record({name: milliseconds() for name in ("p50", "p90", "p95", "p99")}),
        "queue_ms": maybe(milliseconds("As the server counts it; null: it gave no statistics.")),
        "compute_ms": maybe(milliseconds("As the server counts it.")),
        "batch_size": maybe(number("Realised on the server.")),
        "requests": whole(minimum=0),
        "errors": whole(minimum=0),
        "windows": whole("How many were measured until three agreed."),
        "stable": flag("Three windows within 10%."),
        "client_cpu_percent": number("Near 100: the client is what was measured."),
    },
)
BENCHMARK = shape(
    "Benchmark",
    {
        "id": text(),
        "state": STATE,
        "reason": text(),
        "model": text(),
        "version": whole(minimum=1),
        "runtime": maybe(text()),
        "protocol": PROTOCOL,
        "concurrency": array(_RUNG),
        "window_seconds": seconds("The length of one window."),
        "batch_size": whole(minimum=1),
        "inputs": one_of(("given", "generated")),
        "facts": OBJECT | {"description": "What the figures depend on: server, cores."},
        "points": array(POINT),
        "saturation": record(
            {"concurrency": maybe(whole("More gains little throughput; null: not reached."))}
        ),
        "operation": text(),
        "created_at": moment(),
        "started_at": maybe(moment()),
        "ended_at": maybe(moment()),
    },
)
BENCHMARKS = listed("BenchmarkPage", BENCHMARK)
BENCHMARK_OPERATION = operation_with("BenchmarkOperation", benchmark=text("Its id."))
BENCHMARK_PLAN = shape(
    "BenchmarkPlan",
    {
        "runtime": text("Where it would be measured."),
        "protocol": PROTOCOL,
        "concurrency": array(_RUNG),
        "longest_seconds": seconds("At most, if no window agrees with another."),
    },
)
_INPUT = body(
    "BenchmarkInput",
    {
        "name": text(),
        "datatype": text("As in the v2 protocol."),
        "shape": array(whole(minimum=0)),
        "data": {"description": "Values, flat or nested."},
    },
    description="A tensor as in a v2 inference request.",
)
_LOW, _HIGH = WINDOW_SECONDS
BENCHMARK_NEW = body(
    "BenchmarkNew",
    {"model": text(), "version": whole(minimum=1)},
    {
        "protocol": one_of(BenchmarkProtocol.values, "grpc when left out."),
        "concurrency": array(
            _RUNG, f"{list(DEFAULT_LADDER)} when left out.", minItems=1, maxItems=MAX_RUNGS
        ),
        "window_seconds": number(
            f"{DEFAULT_WINDOW_SECONDS:g} when left out. In seconds.", minimum=_LOW, maximum=_HIGH
        ),
        "batch_size": whole("1 when left out.", minimum=1, maximum=MAX_BATCH),
        "inputs": array(_INPUT, "Made from the signature when left out.", minItems=1),
        "runtime": text("Where to measure; chosen for you when left out."),
    },
)
