"""What goes on beside the load: loads, unloads, crashes, and readings of what the server holds."""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.conformance.runtime_process import RuntimeProcess
from tests.soak.load import Findings

# A process that dies oftener within ten minutes is given up: before that its model is loaded anew.
KILLS_PER_LOAD = 4


def make_trouble(server: RuntimeProcess, repository: Path, findings: Findings) -> None:
    """Loads one model anew, another in and out, and kills processes of the Python model."""
    chance = random.Random(1)
    process = psutil.Process(server.process.pid)
    kills = 0
    with server.http_client() as client:
        while not findings.stop.wait(0.5):
            try:
                _load_anew(client, repository, "changing")
                client.load_model("comes_and_goes")
                client.unload_model("comes_and_goes")
                findings.count("loads", 2)
                if kills == KILLS_PER_LOAD:
                    kills = 0
                    _load_anew(client, repository, "add_sub")
                    findings.count("loads")
            except Exception as error:  # noqa: BLE001  any failure is a finding
                findings.fail("load", repr(error))
            children = process.children()
            if children and chance.random() < 0.2:
                kills += 1
                chance.choice(children).kill()
                findings.count("kills")


def _load_anew(client: Any, repository: Path, model: str) -> None:
    for file in (repository / model / "1").iterdir():
        if file.is_file():
            file.touch()
    client.load_model(model)


@dataclass(frozen=True)
class Reading:
    at: float
    rss: int
    descriptors: int
    children: int
    objects: int  # in /dev/shm


@dataclass
class Readings:
    pid: int
    readings: list[Reading] = field(default_factory=list)

    def take(self) -> Reading:
        process = psutil.Process(self.pid)
        reading = Reading(
            time.monotonic(),
            process.memory_info().rss,
            process.num_fds(),
            len(process.children()),
            sum(1 for _ in Path("/dev/shm").iterdir()),
        )
        self.readings.append(reading)
        return reading

    def until_stopped(self, findings: Findings, every_s: float) -> None:
        while not findings.stop.wait(every_s):
            self.take()

    def series(self, points: int = 20) -> list[int]:
        """Memory in MiB, evenly spread over the time."""
        values = [reading.rss >> 20 for reading in self.readings]
        return values[:: max(len(values) // points, 1)]

    def growth(self, warm_up: float) -> float:
        """The last fifth's median memory over that of the fifth after the warm-up, less 1."""
        values = [reading.rss for reading in self.readings]
        begin = int(len(values) * warm_up)
        part = max(len(values) // 5, 1)
        return median(values[-part:]) / median(values[begin : begin + part]) - 1


def median(values: list[int]) -> float:
    ordered = sorted(values)
    return float(ordered[len(ordered) // 2])
