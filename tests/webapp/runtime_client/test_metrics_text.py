import math

from hypothesis import given, strategies as st

from webapp.runtime_client.metrics_text import MetricSample, parse_metrics

TRITON = """\
# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="echo",version="1"} 12
nv_inference_request_failure{model="echo",reason="OTHER",version="1"} 0
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.25
nv_cpu_utilization 0.5 1700000000000
nv_inference_first_response_histogram_ms_bucket{le="+Inf"} 3
"""


def test_reads_what_a_triton_writes():
    samples = list(parse_metrics(TRITON))
    assert samples[0] == MetricSample(
        "nv_inference_request_success", {"model": "echo", "version": "1"}, 12.0
    )
    assert samples[3] == MetricSample("nv_cpu_utilization", {}, 0.5)
    assert samples[4].labels == {"le": "+Inf"}
    assert len(samples) == 5


def test_unescapes_label_values():
    (sample,) = parse_metrics(r'a{x="say \"hi\", {ok}",y="one\ntwo",z="c:\\d"} 1')
    assert sample.labels == {"x": 'say "hi", {ok}', "y": "one\ntwo", "z": "c:\\d"}


def test_reads_infinities_and_not_a_number():
    values = [sample.value for sample in parse_metrics("a +Inf\nb -Inf\nc NaN\nd 1e-3\n")]
    assert values[:2] == [math.inf, -math.inf]
    assert math.isnan(values[2])
    assert values[3] == 0.001


def test_skips_lines_it_does_not_understand():
    text = 'a{x=1} 2\nb{x="1" 2\nc\nd one\n{} 1\n9x 1\nfine 1\n'
    assert [sample.name for sample in parse_metrics(text)] == ["fine"]


@given(st.text(max_size=200))
def test_never_fails_on_any_text(text):
    list(parse_metrics(text))
