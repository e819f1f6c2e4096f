"""What goes on beside the load: loads, unloads, crashes, and readings of what the server holds."""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.conformance.runtime_process import RuntimeProcess
from tests.soak.load import Findings


def make_trouble(server: RuntimeProcess, repository: Path, findings: Findings) -> None:
    """Loads one model anew, another in and out, and kills processes of the Python model."""
    chance = random.Random(1)
    process = psutil.Process(server.process.pid)
    with server.http_client() as client:
        while not findings.stop.wait(0.5):
            try:
                config = repository / "changing" / "config.pbtxt"
                config.touch()
                client.load_model("changing")
                client.load_model("comes_and_goes")
                client.unload_model("comes_and_goes")
                findings.count("loads", 2)
            except Exception as error:  # noqa: BLE001  any failure is a finding
                findings.fail("load", repr(error))
            if chance.random() < 0.2:
                children = process.children()
                if children:
                    chance.choice(children).kill()
                    findings.count("kills")


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

    def growth(self, warm_up: float) -> float:
        """The last fifth's median memory over that of the fifth after the warm-up, less 1."""
        values = [reading.rss for reading in self.readings]
        begin = int(len(values) * warm_up)
        part = max(len(values) // 5, 1)
        return median(values[-part:]) / median(values[begin : begin + part]) - 1


def median(values: list[int]) -> float:
    ordered = sorted(values)
    return float(ordered[len(ordered) // 2])
