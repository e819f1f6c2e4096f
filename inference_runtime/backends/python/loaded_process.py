"""A stub that has loaded what it serves: what those ask of it that keep it alive and look at it."""

import threading
from collections.abc import Callable
from typing import Any

from inference_runtime.backends.base import BackendServices
from inference_runtime.backends.python.side_channel import Received
from inference_runtime.backends.python.stub_process import Launch, StubProcess
from inference_runtime.backends.python.wire.frames import Kind


class LoadedProcess:
    """Subclasses know what is executed in it, by one thread at a time."""

    def __init__(
        self,
        launch: Launch,
        services: BackendServices,
        *,
        received: Received,
        exited: Callable[[StubProcess], None],
    ) -> None:
        self._name = launch.name
        self.executing = False
        self.executions = 0
        self.stub = StubProcess(launch, services.loop, received=received, exited=exited)

    @property
    def gone(self) -> threading.Event:
        return self.stub.gone

    def _begin(self, start: Any) -> Any:
        """What the stub says when it has loaded. Raises its fault; then the process is gone."""
        try:
            return self.stub.begin(Kind.START, start)
        except BaseException:
            self.stub.end()
            raise

    def stop(self, limit: float) -> None:
        self.stub.stop(limit)

    def end(self) -> None:
        self.stub.end()

    def kill(self) -> None:
        self.stub.kill()
