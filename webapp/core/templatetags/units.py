"""Numbers and moments for people: units always, three significant digits, "–" for the unknown."""

from datetime import datetime, timedelta
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

UNKNOWN = "–"
_DURATIONS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def _float(value: Any) -> float | None:
    try:
        return None if value is None or value == "" else float(value)
    except (TypeError, ValueError):
        return None


def significant(value: float) -> str:
    """Three significant digits, thousands separated, no exponent: 0.00123, 12.3, 1,230."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    if magnitude >= 1:
        return f"{value:.2f}"
    return f"{value:.3g}" if magnitude >= 0.0001 else f"{value:.1e}"


@register.filter
def number(value: Any) -> str:
    """12345 → "12,345"; whole numbers stay whole."""
    found = _float(value)
    if found is None:
        return UNKNOWN
    return f"{found:,.0f}" if found.is_integer() else significant(found)


@register.filter
def bytes(value: Any) -> str:
    """In binary units, as memory and files are sold to people who count them."""
    found = _float(value)
    if found is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(found) < 1024:
            return f"{significant(found) if unit != 'B' else int(found)} {unit}"
        found /= 1024
    return f"{significant(found)} TiB"


@register.filter
def duration(value: Any) -> str:
    """Seconds (or a timedelta) as "850 µs", "12.3 ms", "4.50 s", "3 min 20 s", "2 h 5 min"."""
    found = value.total_seconds() if isinstance(value, timedelta) else _float(value)
    if found is None:
        return UNKNOWN
    sign, found = ("-", -found) if found < 0 else ("", found)
    if found < 0.001:
        return f"{sign}{significant(found * 1e6)} µs"
    if found < 1:
        return f"{sign}{significant(found * 1e3)} ms"
    if found < 60:
        return f"{sign}{significant(found)} s"
    return sign + _long(int(found))


def _long(seconds: int) -> str:
    for index, (size, unit) in enumerate(_DURATIONS):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            smaller_size, smaller = (
                _DURATIONS[index + 1] if index + 1 < len(_DURATIONS) else (1, "s")
            )
            part = rest // smaller_size
            return f"{whole} {unit} {part} {smaller}" if part else f"{whole} {unit}"
    return f"{seconds} s"


@register.filter
def milliseconds(value: Any) -> str:
    """Milliseconds, as latencies are kept: 1.23 → "1.23 ms"."""
    found = _float(value)
    return UNKNOWN if found is None else duration(found / 1000)


@register.filter
def percent(value: Any) -> str:
    """A share 0..1 as "5%", "0.05%", "99.9%"."""
    found = _float(value)
    if found is None:
        return UNKNOWN
    shown = found * 100
    if float(shown).is_integer():
        return f"{shown:.0f}%"
    return f"{shown:.1f}%" if abs(shown) >= 10 else f"{shown:.3g}%"


@register.filter
def rate(value: Any) -> str:
    """Per second: 240 → "240/s"."""
    found = _float(value)
    return UNKNOWN if found is None else f"{significant(found)}/s"


@register.filter
def delta(value: Any) -> str:
    """A change with sign and arrow: "▲ +5.2", "▼ -3", "= 0"."""
    found = _float(value)
    if found is None:
        return UNKNOWN
    if found == 0:
        return "= 0"
    return f"▲ +{significant(found)}" if found > 0 else f"▼ {significant(found)}"


@register.filter
def rel_time(value: Any) -> SafeString:
    """`<time>` with "3 min ago"; the exact moment, in the viewer's zone, shows on hover (live.js keeps both right)."""
    if not isinstance(value, datetime):
        return format_html("{}", UNKNOWN)
    return format_html(
        '<time class="rel-time" datetime="{}" title="{}">{}</time>',
        value.isoformat(),
        value.strftime("%Y-%m-%d %H:%M:%S %Z"),
        ago(value),
    )


def ago(moment: datetime, *, now: datetime | None = None) -> str:
    seconds = ((now or timezone.now()) - moment).total_seconds()
    words = _coarse(abs(seconds))
    if words == "now":
        return words
    return f"{words} ago" if seconds > 0 else f"in {words}"


def _coarse(seconds: float) -> str:
    if seconds < 1:
        return "now"
    if seconds < 90:
        return f"{int(seconds)} s"
    if seconds < 5_400:
        return f"{round(seconds / 60)} min"
    if seconds < 129_600:
        return f"{round(seconds / 3600)} h"
    return f"{round(seconds / 86_400)} d"


@register.filter
def unknown(value: Any, reason: str) -> Any:
    """`{{ value|unknown:"no traffic yet" }}`: the value, or a dash that explains itself on hover."""
    if value is None or value == "":
        return format_html('<span class="unknown" title="{}">{}</span>', reason, UNKNOWN)
    return value
