"""The command line: tritonserver's options, their defaults, and what can not be meant."""

from pathlib import Path

import pytest

from inference_runtime.cli import OPTIONS, UsageError, parse, usage
from inference_runtime.lifecycle.start_up import ModelControlMode

REPOSITORY = "--model-repository=/models"


def settings(*options):
    return parse([REPOSITORY, *options])[0]


def test_the_defaults_are_tritons():
    found = settings()
    assert found.server_id == "triton"
    assert [(listen.address, listen.port) for listen in found.listens] == [
        ("0.0.0.0", 8000),
        ("0.0.0.0", 8001),
        ("0.0.0.0", 8002),
    ]
    assert found.mode is ModelControlMode.NONE
    assert found.exit_on_error
    assert found.strict_readiness
    assert found.exit_timeout_seconds == 30
    assert found.poll_seconds == 15
    assert found.loading.threads == 4
    assert found.loading.auto_complete
    assert found.http_options.max_input_bytes == 67108864
    assert found.state_directory is None


def test_values_follow_an_equals_sign_or_a_space():
    both = parse(["--model-repository", "/a", "--model-store=/b", "--http-port", "9", "--id=me"])[0]
    assert [location.path for location in both.repositories] == ["/a", "/b"]
    assert both.http.port == 9
    assert both.server_id == "me"


def test_metrics_listen_where_http_does_unless_told():
    assert settings("--http-address=127.0.0.1").metrics.address == "127.0.0.1"
    assert settings("--metrics-address=10.0.0.1").metrics.address == "10.0.0.1"
    assert len(settings("--allow-metrics=false", "--allow-http=0").listens) == 1


def test_backend_options_are_by_backend_or_for_all():
    found = settings(
        "--backend-config=onnxruntime,default-max-batch-size=8",
        "--backend-config=default-max-batch-size=2",
    )
    assert found.loading.backend_options == {
        "onnxruntime": {"default-max-batch-size": "8"},
        "": {"default-max-batch-size": "2"},
    }


def test_the_least_compute_capability_is_a_number():
    option = "--min-supported-compute-capability"
    assert settings().loading.min_compute_capability == 7.5
    assert settings(f"{option}=8").loading.min_compute_capability == 8
    for text in ("", "new", "-1", "nan", "1e9", "7.5.1"):
        with pytest.raises(UsageError, match="min-supported-compute-capability"):
            settings(f"{option}={text}")


def test_metrics_config_switches_families():
    options = settings(
        "--metrics-config=summary_latencies=true",
        "--metrics-config=counter_latencies=false",
        "--metrics-config=summary_quantiles=0.5:0.05,nonsense,0.99:0.001",
        "--metrics-interval-ms=500",
    ).metrics_options
    assert options.summary_latencies
    assert not options.counter_latencies
    assert options.quantiles == (0.5, 0.99)
    assert options.interval_ns == 500_000_000


def test_the_deprecated_switch_warns_and_means_what_it_meant():
    found, warnings = parse([REPOSITORY, "--strict-model-config=true"])
    assert not found.loading.auto_complete
    assert "has been deprecated" in warnings[0]
    found, warnings = parse(
        [REPOSITORY, "--strict-model-config=false", "--disable-auto-complete-config"]
    )
    assert not found.loading.auto_complete
    assert "Overriding deprecated" in warnings[1]


def test_logs():
    logs = settings("--log-verbose=true", "--log-format=ISO8601", "--log-info=false").logs
    assert (logs.verbose_level, logs.format) == (1, "ISO8601")
    assert (logs.info, logs.warning, logs.escape) == (False, True, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nonsense"], 'Bad option: "--nonsense".'),
        (["nonsense"], 'Bad option: "nonsense".'),
        (["--load-model=m"], "requires setting '--model-control-mode=explicit' as well."),
        (["--model-control-mode=some"], 'Bad option: "--model-control-mode".'),
        (["--http-port"], 'Bad option: "--http-port". It needs a value.'),
        (["--http-port=many"], 'Bad option: "--http-port".'),
        (["--http-port=70000"], "A port is at most 65535"),
        (["--exit-on-error=maybe"], 'Bad option: "--exit-on-error".'),
        (["--http-max-input-size=0"], "Error: --http-max-input-size must be greater than 0."),
        (["--http-max-input-size=-1"], "Error: --http-max-input-size must be greater than 0."),
        (["--rate-limit=some"], "invalid argument for --rate-limit."),
        (["--rate-limit-resource=R"], "--rate-limit-resource option format is"),
        (["--rate-limit-resource=R:many"], "--rate-limit-resource option format is"),
        (["--rate-limit-resource=R:1:left"], "--rate-limit-resource option format is"),
        (["--rate-limit-resource=:1"], "--rate-limit-resource option format is"),
        (["--cache-config=local,size=0"], "must be given a size in bytes greater than 0"),
        (["--cache-config=local,size=some"], "must be given a size in bytes greater than 0"),
        (["--cache-config=local,length=5"], "the local cache has no setting 'length'"),
        (["--cache-config=local"], "--cache-config option format is"),
        (["--cache-config=size=5"], "--cache-config option format is"),
        (["--cache-config=redis,host=h"], "there is no cache 'redis' in this server"),
        (
            ["--cache-config=local,size=5", "--cache-config=redis,host=h"],
            "only one cache can be configured",
        ),
        (
            ["--cache-config=local,size=5", "--response-cache-byte-size=5"],
            "Error: Incompatible flags --response-cache-byte-size and --cache-config both provided.",
        ),
        (["--response-cache-byte-size=-1"], "It must be at least 0"),
        (["--grpc-use-ssl=true"], "--grpc-use-ssl wants --grpc-server-cert"),
        (
            ["--grpc-port=8000"],
            "The server cannot listen to HTTP requests and GRPC requests at the same address and "
            "port 0.0.0.0:8000",
        ),
        (["--grpc-infer-thread-count=1"], "Must be in the range 2 to 128"),
        (["--model-config-name="], "--model-config-name must be"),
        (["--model-config-name=../x"], "--model-config-name must be"),
        (["--backend-config=onnxruntime"], 'Bad option: "--backend-config".'),
        (["--log-verbose=loud"], 'Bad option: "--log-verbose".'),
        (["--log-verbose=4294967296"], 'Bad option: "--log-verbose".'),
        (["--log-verbose=" + 5000 * "9"], 'Bad option: "--log-verbose".'),
        (["--http-port=" + 5000 * "9"], 'Bad option: "--http-port".'),
        (["--http-port=\N{ARABIC-INDIC DIGIT THREE}"], 'Bad option: "--http-port".'),
        (["--log-format=xml"], 'Bad option: "--log-format".'),
        (["--grpc-infer-response-compression-level=max"], "Use none, low, medium or high"),
    ],
)
def test_what_can_not_be_meant_is_said(options, message):
    with pytest.raises(UsageError) as caught:
        settings(*options)
    assert message in str(caught.value)


def test_a_repository_is_required():
    with pytest.raises(UsageError, match="--model-repository must name"):
        parse([])


def test_resources_are_listed_by_name_and_device():
    assert settings().rate_limit is None
    assert settings("--rate-limit-resource=R:3").rate_limit is None
    assert settings("--rate-limit=execution_count").rate_limit == {}
    listed = settings(
        "--rate-limit=execution_count",
        "--rate-limit-resource=R:3",
        "--rate-limit-resource=S:2:1",
        "--rate-limit-resource=S:4:cpu",
        "--rate-limit-resource=R:5",
    ).rate_limit
    assert listed == {("R", ""): 3, ("S", "gpu:1"): 2, ("S", "cpu"): 4}


def test_the_size_of_the_response_cache_comes_from_either_option():
    assert settings().response_cache_bytes == 0
    assert settings("--cache-config=local,size=1048576").response_cache_bytes == 1 << 20
    assert settings("--response-cache-byte-size=4096").response_cache_bytes == 4096


def test_what_is_not_built_is_accepted_at_its_default():
    settings("--rate-limit=off", "--grpc-keepalive-time=1000")


def test_the_usage_and_the_docs_name_every_option():
    documented = (Path(__file__).parents[2] / "docs/runtime-options.md").read_text()
    for option in OPTIONS:
        assert f"--{option.name}:" in usage()
        assert f"`--{option.name}`" in documented, option.name


def test_repositories_may_be_anywhere(tmp_path, monkeypatch):
    def locations(*values: str):
        return parse([f"--model-repository={value}" for value in values])[0].repositories

    credentials = tmp_path / "credentials.json"
    credentials.write_text('{"s3": {"s3://bucket": {"key_id": "k", "secret_key": "s"}}}')
    monkeypatch.setenv("TRITON_CLOUD_CREDENTIAL_PATH", str(credentials))
    found = locations("/models", "s3://bucket/a", "s3://host:9000/bucket/a", "/models")
    assert [location.shown for location in found] == [
        "/models",
        "s3://bucket/a",
        "s3://host:9000/bucket/a",
    ]
    assert found[1].options["key"] == "k"
    assert "key" not in found[2].options
    with pytest.raises(UsageError, match=r'Bad option: "--model-repository"\. .* names no place'):
        locations("s3://")
    credentials.write_text("{")
    with pytest.raises(UsageError, match=r"credential file .* can not be read"):
        locations("/models")
