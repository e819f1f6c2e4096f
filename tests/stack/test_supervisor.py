"""What stops a start before anything runs, said so that a person can mend it."""

import dataclasses
import fcntl
import socket
from pathlib import Path

import pytest

from stack.console import Console
from stack.settings import StackSettings
from stack.supervisor import CannotStart, Supervisor


@pytest.fixture
def settings(tmp_path: Path) -> StackSettings:
    return dataclasses.replace(
        StackSettings.read(), home=tmp_path, web_port=0, http_port=0, grpc_port=0, metrics_port=0
    )


async def test_a_taken_port_names_the_setting_to_change(settings: StackSettings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        supervisor = Supervisor(
            dataclasses.replace(settings, grpc_port=port), Console(colour=False)
        )
        with pytest.raises(CannotStart, match=f"Port {port} .* SWITCHYARD_GRPC_PORT"):
            await supervisor.run()


async def test_a_second_stack_from_the_same_home_is_refused(settings: StackSettings) -> None:
    (settings.home / "run").mkdir()
    with (settings.home / "run" / "stack.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CannotStart, match="already runs"):
            await Supervisor(settings, Console(colour=False)).run()
