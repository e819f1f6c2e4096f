"""One soak from start to verdict."""

import threading
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.runtime_process import RuntimeProcess, runtime
from tests.soak.load import Asker, Findings, ask_until_stopped
from tests.soak.repository import OPTIONS, write_repository
from tests.soak.trouble import Reading, Readings, make_trouble


@dataclass
class Soak:
    findings: Findings
    readings: Readings
    idle_before: Reading
    idle_after: Reading
    inflight: int
    slots_in_use: int
    log: str

    def summary(self) -> str:
        lines = [f"{count:>10} {name}" for name, count in self.findings.answers.most_common()]
        first, last = self.idle_before, self.idle_after
        lines += [
            f"{self.findings.crashes:>10} requests told of a killed process",
            f"{len(self.findings.failures):>10} failures",
            f"memory {first.rss >> 20} -> {last.rss >> 20} MiB idle; under load "
            f"{self.readings.growth(WARM_UP):+.1%} after warm-up",
            f"descriptors {first.descriptors} -> {last.descriptors}, processes "
            f"{first.children} -> {last.children}, shared memory {first.objects} -> {last.objects}, "
            f"in flight {self.inflight}, slots {self.slots_in_use}",
            f"memory over time, MiB: {' '.join(map(str, self.readings.series()))}",
            *self.findings.failures[:20],
        ]
        return "\n".join(lines)


WARM_UP = 0.3


def soak(directory: Path, *, seconds: float, askers: int = 6) -> Soak:
    repository = directory / "repository"
    write_repository(repository)
    findings = Findings()
    with runtime(repository, directory / "log", *OPTIONS) as server:
        readings = Readings(server.process.pid)
        before = readings.take()
        threads = [
            threading.Thread(target=_ask, args=(server, number, findings))
            for number in range(askers)
        ]
        threads.append(threading.Thread(target=make_trouble, args=(server, repository, findings)))
        threads.append(
            threading.Thread(
                target=readings.until_stopped, args=(findings, max(seconds / 200, 0.2))
            )
        )
        for thread in threads:
            thread.start()
        findings.stop.wait(seconds)
        findings.stop.set()
        for thread in threads:
            thread.join(60)
            if thread.is_alive():
                findings.fail("end", f"{thread.name} is still waiting for an answer")
        _settle(server, before, readings)
        return Soak(
            findings,
            readings,
            before,
            readings.take(),
            _inflight(server),
            _slots(server),
            server.log,
        )


def _ask(server: RuntimeProcess, number: int, findings: Findings) -> None:
    asker = Asker(server, number)
    try:
        ask_until_stopped(asker, findings)
    finally:
        asker.close()


def _settle(server: RuntimeProcess, before: Reading, readings: Readings) -> None:
    server.wait_for(lambda: _inflight(server) == 0, "the end of all requests")
    server.wait_for(
        lambda: readings.take().children == before.children, "the return of killed processes"
    )


def _inflight(server: RuntimeProcess) -> int:
    models = server.call("GET", "/v2/switchyard/statistics")[1]["models"]
    return sum(entry["inflight"] for entry in models)


def _slots(server: RuntimeProcess) -> int:
    pools = server.call("GET", "/v2/switchyard/slots")[1]["pools"]
    return sum(pool["in_use"] for pool in pools)
