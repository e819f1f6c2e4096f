"""What one HTTP/2 peer may take of this server, and how often it may ask for nothing."""

import time
from dataclasses import dataclass
from typing import Final

from inference_runtime.frontends.h2_frames import ENHANCE_YOUR_CALM, ConnectionFault

INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class H2Limits:
    max_streams: int = 1024  # requests at a time, the cancelled ones that still run included
    max_frame_size: int = 65536
    connection_window: int = 16 << 20
    stream_window: int = 1 << 20
    header_block_size: int = 65536  # as it travels, CONTINUATION frames included
    header_list_size: int = 32768  # as RFC 7541 counts it
    write_high_water: int = 1 << 20  # unsent bytes after which answers wait in their streams
    unsent: int = 256 << 20  # bytes of answers waiting after which no more streams are taken
    control_burst: float = 1000.0  # PING, SETTINGS, PRIORITY, empty and senseless frames
    control_rate: float = 500.0  # … per second, for ever
    reset_burst: float = 2000.0
    reset_rate: float = 1000.0
    ping_strikes: int = 0  # pings that may come too soon; 0: any number
    ping_interval: float = 300.0  # seconds between pings while nothing is sent
    ping_without_calls: bool = (
        False  # … which are two hours while no call is open, unless this is set
    )


class FloodGuard:
    """A token bucket. Only frames that carry no request pass by here."""

    __slots__ = ("_burst", "_rate", "_stamp", "_tokens", "_what")

    def __init__(self, what: str, burst: float, rate: float) -> None:
        self._what = what
        self._burst = burst
        self._rate = rate
        self._tokens = burst
        self._stamp = time.monotonic()

    def spend(self) -> None:
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._stamp) * self._rate) - 1.0
        self._stamp = now
        if self._tokens < 0.0:
            raise ConnectionFault(ENHANCE_YOUR_CALM, f"too many {self._what} frames")
