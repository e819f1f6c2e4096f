"""Numbers of the metrics page, as a scraper sees them."""

import urllib.request

from tests.conformance.runtime_process import WAIT_SECONDS, RuntimeProcess


def metric(server: RuntimeProcess, name: str, model: str, **labels: str) -> int:
    """Of version 1 of a model."""
    return series(server, name, model=model, version="1", **labels)


def series(server: RuntimeProcess, name: str, **labels: str) -> int:
    text = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
    start = f"{name}{{{text}}} "
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=WAIT_SECONDS) as page:
        lines = page.read().decode().splitlines()
    return next(int(float(line[len(start) :])) for line in lines if line.startswith(start))


def pending(server: RuntimeProcess, model: str) -> int:
    """Requests that wait to be executed."""
    return metric(server, "nv_inference_pending_request_count", model)


def client_faults(server: RuntimeProcess) -> int:
    """Requests that no version has seen, by their clients' fault."""
    return series(server, "runtime_unrouted_requests_total", outcome="client_fault")


def wait_pending(server: RuntimeProcess, model: str, count: int) -> None:
    server.wait_for(lambda: pending(server, model) == count, f"{count} pending requests")
