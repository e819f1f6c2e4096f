"""What one server gave under one load, a value for each round."""

from dataclasses import dataclass, field

from bench.load import Rate


@dataclass
class Series:
    per_second: list[float] = field(default_factory=list)
    mean_ms: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)  # of the server, per request
    failed: int = 0

    def add(self, rate: Rate) -> None:
        self.per_second.append(rate.per_second)
        self.mean_ms.append(rate.mean_ms)
        self.cpu_us.append(rate.cpu_us_per_request)
        self.failed += rate.failed
