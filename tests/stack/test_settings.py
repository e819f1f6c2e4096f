import os
from pathlib import Path

import pytest

from stack.settings import SOCKET_PATH_LIMIT, StackSettings, find_redis_server
from webapp.env import EnvironmentProblem


def read(monkeypatch: pytest.MonkeyPatch, **values: str) -> StackSettings:
    for name in [n for n in os.environ if n.startswith("SWITCHYARD_") or n == "REDIS_URL"]:
        monkeypatch.delenv(name)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return StackSettings.read()


def test_defaults_are_those_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch)
    assert list(settings.ports.values()) == [8080, 8000, 8001, 8002]
    assert settings.home.name == "var"
    assert settings.redis_url == ""


def test_a_port_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentProblem, match="SWITCHYARD_WEB_PORT: expected a whole number"):
        read(monkeypatch, SWITCHYARD_WEB_PORT="eighty")


def test_the_redis_socket_fits_the_kernels_limit_however_deep_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    short = read(monkeypatch, SWITCHYARD_HOME="/srv/switchyard")
    assert short.redis_socket == Path("/srv/switchyard/redis.sock")
    deep = read(monkeypatch, SWITCHYARD_HOME=str(tmp_path / ("deep" * 30)))
    assert len(os.fsencode(deep.redis_socket)) <= SOCKET_PATH_LIMIT
    other = read(monkeypatch, SWITCHYARD_HOME=str(tmp_path / ("deeper" * 20)))
    assert other.redis_socket != deep.redis_socket


def test_children_are_told_where_home_and_redis_are(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = read(monkeypatch, SWITCHYARD_HOME="/srv/s").child_environment
    assert environment["REDIS_URL"] == "unix:///srv/s/redis.sock"
    given = read(monkeypatch, REDIS_URL="redis://elsewhere:6379/1").child_environment
    assert given["REDIS_URL"] == "redis://elsewhere:6379/1"


def test_a_redis_server_is_found_without_being_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = find_redis_server()
    assert found is not None
    assert os.access(found, os.X_OK)
