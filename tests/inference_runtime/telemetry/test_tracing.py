"""Sampling and inheritance of trace settings, links to callers, and what bounds the traces."""

import json
import time

import pytest

from inference_runtime.cli import UsageError, parse
from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.messages import InferRequest, RequestHead, TensorHead
from inference_runtime.telemetry.trace import read_traceparent
from inference_runtime.telemetry.trace_export import SpanExporter
from inference_runtime.telemetry.trace_settings import (
    ExportOptions,
    TraceMode,
    TraceOptions,
    TraceSettings,
)
from inference_runtime.telemetry.tracer import Tracer

TRACING = TraceOptions(levels=("TIMESTAMPS",), rate=1, file="t")


def sampled(settings: TraceSettings, model: str, times: int) -> int:
    return sum(settings.sample(model) is not None for _ in range(times))


def test_every_rate_th_request_is_traced_and_models_count_for_themselves():
    settings = TraceSettings(TraceOptions(levels=("TIMESTAMPS",), rate=3, file="t"))
    settings.change("own", {"rate": 2})
    assert [settings.sample("m") is not None for _ in range(6)] == [False, False, True] * 2
    assert [settings.sample("own") is not None for _ in range(4)] == [False, True] * 2
    # Models without settings of their own are counted together.
    assert [settings.sample(name) is not None for name in "abc"] == [False, False, True]


def test_a_count_is_used_up_by_those_who_share_it():
    settings = TraceSettings(TRACING)
    settings.change("", {"count": 4})
    settings.change("own", {"count": 1})
    settings.change("shares", {"log_frequency": 5})
    assert sampled(settings, "own", 5) == 1
    assert sampled(settings, "shares", 3) == 3
    assert sampled(settings, "m", 5) == 1
    assert (settings.active, sampled(settings, "m", 5)) == (False, 0)
    assert (settings.effective().count, settings.effective("own").count) == (0, 0)
    settings.change("own", {"count": None})
    settings.change("", {"count": None})
    assert settings.effective("own").count == -1
    assert settings.active


def test_a_change_that_is_refused_changes_nothing():
    settings = TraceSettings(TraceOptions(file="t"))
    settings.change("m", {"levels": ("TENSORS",)})
    before = settings.effective("m")
    with pytest.raises(InvalidArgument):
        settings.change("m", {"rate": 0, "log_frequency": 9})
    assert settings.effective("m") == before
    settings.change("", {"rate": 0})  # no level is set there, but the model must survive it
    assert settings.sample("m") is None


def test_a_model_that_takes_everything_back_has_no_settings_of_its_own():
    settings = TraceSettings(TRACING)
    settings.change("m", {"rate": 5})
    assert settings.owner("m") == "m"
    settings.change("m", {"rate": None})
    assert settings.owner("m") == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"00-{'a' * 32}-{'b' * 16}-00", True),
        (f"01-{'a' * 32}-{'b' * 16}-01-more", True),
        (f"ff-{'a' * 32}-{'b' * 16}-01", False),
        (f"00-{'0' * 32}-{'b' * 16}-01", False),
        (f"00-{'a' * 32}-{'0' * 16}-01", False),
        (f"00-{'A' * 32}-{'b' * 16}-01", False),
        ("", False),
    ],
)
def test_traceparents(text, found):
    assert (read_traceparent(text) is not None) is found


def run(tracer: Tracer, model="m"):
    answers = []
    head = RequestHead(model, "", ())
    request = InferRequest(head, [], lambda _, answer: answers.append(answer), None, 1)
    trace = tracer.begin(request)
    request.done(request, InvalidArgument("refused"))
    assert len(answers) == 1
    return trace


def test_a_tensor_that_can_not_be_copied_costs_its_trace_and_not_its_request(tmp_path, caplog):
    tracer = Tracer(TraceOptions(levels=("TENSORS",), rate=1, file=str(tmp_path / "t")))
    gone = memoryview(b"1234")
    gone.release()
    answers = []
    head = RequestHead("m", "", (TensorHead("IN", "INT32", (1,)),))
    request = InferRequest(head, [gone], lambda _, answer: answers.append(answer), None, 1)
    tracer.begin(request)
    request.done(request, InvalidArgument("refused"))
    tracer.close()
    assert len(answers) == 1
    assert "could not be traced" in caplog.text


def test_traces_of_one_file_are_written_early_when_many_have_gathered(tmp_path):
    file = tmp_path / "t"
    tracer = Tracer(TraceOptions(levels=("TIMESTAMPS",), rate=1, file=str(file)))
    for _ in range(1500):
        run(tracer)
    tracer.close()
    heads = [row for row in json.loads(file.read_text()) if "model_name" in row]
    assert [head["id"] for head in heads] == list(range(1, 1501))


def test_a_numbered_file_has_as_many_traces_as_were_asked_for(tmp_path):
    file = tmp_path / "t"
    options = TraceOptions(levels=("TIMESTAMPS",), rate=1, log_frequency=2300, file=str(file))
    tracer = Tracer(options)
    for _ in range(2500):
        run(tracer)
    tracer.close()
    found = []
    for path in sorted(tmp_path.iterdir()):
        heads = [row for row in json.loads(path.read_text()) if "model_name" in row]
        found.append((path.name, len(heads)))
    assert found == [("t.0", 2300), ("t.1", 200)]


def test_a_file_that_can_not_be_written_costs_nobody_anything(tmp_path, caplog):
    tracer = Tracer(TraceOptions(levels=("TIMESTAMPS",), rate=1, file=str(tmp_path / "no/t")))
    run(tracer)
    tracer.close()
    assert "traces could not be written" in caplog.text


def test_spans_that_nobody_takes_are_dropped(caplog):
    options = ExportOptions(
        url="http://127.0.0.1:9/v1/traces", max_queue_size=4, schedule_delay_ms=3_600_000
    )
    traced = TraceOptions(
        levels=("TIMESTAMPS",), rate=1, mode=TraceMode.OPENTELEMETRY, export=options
    )
    tracer = Tracer(traced)
    for _ in range(20):
        run(tracer)
    began = time.monotonic()
    tracer.close()
    assert time.monotonic() - began < 9
    assert "spans were dropped" in caplog.text
    assert "spans could not be exported" in caplog.text


def test_an_exporter_that_was_never_used_closes():
    SpanExporter(ExportOptions()).close(lambda _: 0)


def options_of(*entries):
    return parse(["--model-repository=/m", *(f"--trace-config={entry}" for entry in entries)])[
        0
    ].traces


def test_the_command_line_says_it_all(monkeypatch):
    found = options_of(
        "level=min",
        "level=Tensors",
        "rate=5",
        "count=7",
        "triton,file=/t",
        "triton,log-frequency=2",
    )
    assert found == TraceOptions(("TIMESTAMPS", "TENSORS"), 5, 7, 2, "/t")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "many")
    found = options_of(
        "mode=opentelemetry",
        "opentelemetry,url=h:1/x",
        "opentelemetry,resource=a=b=c",
        "opentelemetry,bsp_max_export_batch_size=3",
    )
    assert found.export == ExportOptions("h:1/x", {"a": "b=c"}, 2048, 20, 3)
    settings, warnings = parse(
        ["--model-repository=/m", "--trace-file=/t", "--trace-level=TIMESTAMPS"]
    )
    assert (settings.traces.file, settings.traces.levels) == ("/t", ("TIMESTAMPS",))
    assert "'--trace-file' has been deprecated" in warnings[0]


@pytest.mark.parametrize(
    "entries",
    [
        ("level=TIMESTAMPS",),
        ("level=TIMESTAMPS", "triton,file=/t", "rate=0"),
        ("level=loud",),
        ("mode=other",),
        ("rate=-1",),
        ("count=-2",),
        ("nonsense",),
        ("other,file=x",),
        ("triton,path=x",),
        ("opentelemetry,resource=x",),
        ("opentelemetry,bsp_max_queue_size=0",),
    ],
)
def test_what_can_not_be_meant_is_refused(entries):
    with pytest.raises(UsageError, match="trace-config"):
        options_of(*entries)
