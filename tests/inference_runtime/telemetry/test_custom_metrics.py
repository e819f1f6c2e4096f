"""Metrics of models: shared by name, bounded, gone with their owners."""

import pytest

from inference_runtime.errors import AlreadyExists, InvalidArgument
from inference_runtime.telemetry import custom_metrics
from inference_runtime.telemetry.custom_metrics import COUNTER, GAUGE, HISTOGRAM, CustomMetrics
from inference_runtime.telemetry.exposition import render


def text(metrics: CustomMetrics) -> str:
    return render(metrics.families(), None)


def test_owners_of_one_name_and_labels_share_a_series():
    metrics = CustomMetrics()
    numbers = [
        metrics.metric(owner, metrics.family(owner, "seen", "Seen", COUNTER), {"a": "1"}, ())
        for owner in ("x", "y")
    ]
    for owner, number in zip("xy", numbers, strict=True):
        metrics.change(owner, number, "increment", 2)
    assert metrics.value("x", numbers[0]) == 4
    assert text(metrics) == '# HELP seen Seen\n# TYPE seen counter\nseen{a="1"} 4\n'
    metrics.drop("x")
    assert 'seen{a="1"} 4' in text(metrics)
    metrics.drop("y")
    assert text(metrics) == ""


def test_a_series_goes_before_its_family_when_it_is_forgotten():
    metrics = CustomMetrics()
    family = metrics.family("x", "level", "Level", GAUGE)
    number = metrics.metric("x", family, {}, ())
    metrics.change("x", number, "set", -1.5)
    assert "level -1.5" in text(metrics)
    metrics.forget("x", number)
    assert "level" not in text(metrics)
    with pytest.raises(InvalidArgument):
        metrics.change("x", number, "set", 1)
    metrics.family("y", "level", "Level", GAUGE)  # still the same
    with pytest.raises(AlreadyExists, match="another kind or description"):
        metrics.family("y", "level", "Level", COUNTER)


def test_histograms_count_into_their_buckets():
    metrics = CustomMetrics()
    number = metrics.metric("x", metrics.family("x", "h", "", HISTOGRAM), {}, [1.0, 2.0])
    for value in (0.5, 1.0, 1.5, 9.0):
        metrics.change("x", number, "observe", value)
    for line in ('h_bucket{le="1"} 2', 'h_bucket{le="2"} 3', 'h_bucket{le="+Inf"} 4', "h_sum 12"):
        assert line in text(metrics)


@pytest.mark.parametrize(
    ("kind", "by", "value"),
    [
        (COUNTER, "increment", -1),
        (COUNTER, "set", 1),
        (COUNTER, "observe", 1),
        (GAUGE, "observe", 1),
        (GAUGE, "set", float("nan")),
        (HISTOGRAM, "increment", 1),
        (GAUGE, "other", 1),
    ],
)
def test_what_a_kind_does_not_have_is_refused(kind, by, value):
    metrics = CustomMetrics()
    buckets = [1.0] if kind == HISTOGRAM else []
    number = metrics.metric("x", metrics.family("x", "m", "", kind), {}, buckets)
    with pytest.raises(InvalidArgument):
        metrics.change("x", number, by, value)


@pytest.mark.parametrize("name", ["", "1a", "a b", 'a"} 1\nfake{x="', "é"])
def test_names_can_not_forge_the_text(name):
    metrics = CustomMetrics()
    with pytest.raises(InvalidArgument):
        metrics.family("x", name, "", COUNTER)
    family = metrics.family("x", "m", "two\nlines", COUNTER)
    with pytest.raises(InvalidArgument):
        metrics.metric("x", family, {name: "v"}, ())
    metrics.metric("x", family, {"l": 'a"\nb'}, ())
    assert text(metrics).splitlines() == [
        "# HELP m two\\nlines",
        "# TYPE m counter",
        'm{l="a\\"\\nb"} 0',
    ]


@pytest.mark.parametrize("buckets", [[], [1.0, 1.0], [2.0, 1.0], [float("nan"), 1.0]])
def test_buckets_increase(buckets):
    metrics = CustomMetrics()
    family = metrics.family("x", "h", "", HISTOGRAM)
    with pytest.raises(InvalidArgument):
        metrics.metric("x", family, {}, buckets)


def test_there_is_a_bound_and_the_servers_own_names_are_its_own(monkeypatch):
    monkeypatch.setattr(custom_metrics, "MAX_SERIES", 2)
    metrics = CustomMetrics(reserved=["nv_own"])
    with pytest.raises(AlreadyExists):
        metrics.family("x", "nv_own", "", COUNTER)
    family = metrics.family("x", "m", "", COUNTER)
    numbers = [metrics.metric("x", family, {"n": str(n)}, ()) for n in range(2)]
    with pytest.raises(InvalidArgument):
        metrics.metric("x", family, {"n": "2"}, ())
    metrics.forget("x", numbers[0])
    metrics.metric("x", family, {"n": "2"}, ())
