"""A stack stops in time and finds everything again."""

from pathlib import Path

import pytest

from tests.e2e.conftest import Stack, eventually, free_ports
from tests.e2e.steps import deploy, lookup_model, publish
from tests.e2e.traffic import Traffic

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_a_second_start_finds_all_data_and_serves_what_was_served(tmp_path: Path) -> None:
    stack = Stack(home=tmp_path / "home with a space", ports=free_ports(4))
    stack.home.mkdir()
    stack.start()
    try:
        api = stack.api()
        version = publish(api, "kept", lookup_model(tmp_path, rows=20, scale=3))
        deploy(api, "kept", version)
    finally:
        took = stack.stop()
    assert took < 10
    stack.start()
    try:
        with Traffic(stack.grpc, "kept", rate=50) as traffic:
            eventually(lambda: len(traffic.answers) > 20, within=20, what="answers")
        assert traffic.failed == []
        assert set(traffic.versions()) == {version}
        assert api.call("GET", f"/models/kept/versions/{version}")["state"] == "READY"
        assert "Password" in stack.log.read_text()
    finally:
        assert stack.stop() < 10
