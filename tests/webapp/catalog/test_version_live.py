"""What a watcher of a version is shown, and what is told when it is decided."""

import numpy as np

from tests import onnx_models
from tests.publishing import Publishing, checks_by_name, named_file, onnx_bytes
from webapp.catalog.repository_writer import write_config
from webapp.core.snapshots import UnknownTopic, snapshot_of

MODEL = onnx_bytes(onnx_models.add_sub("FP32", (4,)))


def test_a_watcher_sees_state_and_checks(publishing: Publishing) -> None:
    operation = publishing.send("m", MODEL).json()
    vic = publishing.world.vic
    before = snapshot_of("version:m/1", vic)
    assert (before["state"], before["checks"]) == ("QUARANTINED", [])
    publishing.check(operation)
    after = snapshot_of("version:m/1", vic)
    assert after["state"] == "READY"
    assert len(after["checks"]) == 17


def test_what_is_not_there_cannot_be_watched(publishing: Publishing) -> None:
    for topic in ("version:m/1", "version:m", "version:", "version:m/x"):
        try:
            snapshot_of(topic, publishing.world.vic)
        except UnknownTopic:
            continue
        raise AssertionError(topic)


def test_every_decision_is_told(publishing: Publishing, monkeypatch) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(
        "webapp.catalog.live.publish",
        lambda *, topic, data: told.append((topic, data["state"])),
    )
    publishing.upload("m", MODEL)
    publishing.upload("m", b"nonsense")

    assert told[0] == ("version:m/1", "VALIDATING")
    assert ("version:m/1", "READY") in told
    assert told[-1] == ("version:m/2", "REJECTED")


def test_samples_may_come_as_npz(publishing: Publishing, tmp_path) -> None:
    one = np.full((2, 4), 3, np.float32)
    path = tmp_path / "samples.npz"
    np.savez(path, INPUT0=one, INPUT1=one, OUTPUT0=one + one)
    good = publishing.upload("m", MODEL, samples=named_file("samples.npz", path.read_bytes()))
    assert checks_by_name(good)["samples"]["status"] == "passed", good.checks
    assert "1 output as expected" in checks_by_name(good)["samples"]["detail"]

    np.savez(path, INPUT0=one.astype(np.float64), INPUT1=one)
    bad = publishing.upload("m", MODEL, samples=named_file("samples.npz", path.read_bytes()))
    assert "float64" in checks_by_name(bad)["samples"]["detail"]
    assert bad.state == "REJECTED"


def test_a_config_is_replaced_in_one_step(publishing: Publishing) -> None:
    publishing.upload("m", MODEL)
    for text in ("max_batch_size: 4\n", "max_batch_size: 8\n"):
        written = write_config("m", text)
        assert written == publishing.home / "repository/m/config.pbtxt"
        assert written.read_text() == text
    assert not any((publishing.home / "staging").iterdir())
