"""HTTP to a runtime: the protocol extensions of ours, and `/metrics`."""

import json
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

from webapp.runtime_client.address import parse_address
from webapp.runtime_client.errors import RuntimeRefused, RuntimeUnreachable
from webapp.runtime_client.types import TrafficTable

CONNECT_SECONDS = 1.0
_TRAFFIC_PATH = "/v2/switchyard/traffic"


class HttpCalls:
    """One pool of connections to one address. May be shared between threads."""

    def __init__(self, address: str, timeout: float) -> None:
        host, port = parse_address(address)
        self._address = address
        self._timeout = timeout
        self._pool = urllib3.HTTPConnectionPool(host, port, maxsize=4, retries=False)

    def text(self, path: str, *, timeout: float | None = None) -> str:
        return self._call("GET", path, None, timeout).decode("utf-8", "replace")

    def json(
        self, method: str, path: str, body: Any = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        answer = self._call(method, path, body, timeout)
        if not answer:
            return {}
        try:
            value = json.loads(answer)
        except ValueError:
            raise RuntimeRefused(f"{self._address}{path} did not answer with JSON", 502) from None
        if not isinstance(value, dict):
            raise RuntimeRefused(f"{self._address}{path} did not answer with an object", 502)
        return value

    def close(self) -> None:
        self._pool.close()

    def _call(self, method: str, path: str, body: Any, timeout: float | None) -> bytes:
        seconds = self._timeout if timeout is None else timeout
        try:
            answer = self._pool.request(
                method,
                path,
                body=None if body is None else json.dumps(body).encode(),
                headers={"Content-Type": "application/json"} if body is not None else None,
                timeout=urllib3.Timeout(connect=min(CONNECT_SECONDS, seconds), read=seconds),
            )
        except urllib3.exceptions.NewConnectionError as problem:  # a TimeoutError, too
            raise RuntimeUnreachable(f"{self._address}: {_cause(problem)}") from None
        except urllib3.exceptions.TimeoutError:
            raise RuntimeUnreachable(
                f"{self._address} did not answer within {seconds:g} s"
            ) from None
        except (urllib3.exceptions.HTTPError, OSError) as problem:
            raise RuntimeUnreachable(f"{self._address}: {_cause(problem)}") from None
        if answer.status >= 400:
            raise RuntimeRefused(_refusal(answer.data, answer.status), answer.status)
        return answer.data


def traffic_path(name: str, *, generation: int | None = None) -> str:
    query = "" if generation is None else "?" + urlencode({"generation": generation})
    return f"{_TRAFFIC_PATH}/{quote(name, safe='')}{query}"


def tables_of(body: dict[str, Any]) -> list[TrafficTable]:
    return [TrafficTable.from_wire(table) for table in body.get("tables", [])]


TRAFFIC_TABLES_PATH = _TRAFFIC_PATH
STATISTICS_PATH = "/v2/switchyard/statistics"


def _cause(problem: BaseException) -> str:
    """The operating system's words, without the objects urllib3 wraps around them."""
    inner: BaseException | None = problem
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__
    return "the connection was cut"


def _refusal(data: bytes, status: int) -> str:
    try:
        text = json.loads(data)["error"]
    except (ValueError, KeyError, TypeError):
        text = ""
    return str(text) or f"HTTP status {status}"
