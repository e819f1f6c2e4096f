"""The options of the rate limiter and of the response cache."""

from inference_runtime.cli.arguments import Arguments, UsageError
from inference_runtime.scheduling.resource_pools import EVERY_DEVICE, Listed

_RESOURCE_FORMAT = (
    "--rate-limit-resource option format is '<resource_name>:<count>:<device>' or "
    "'<resource_name>:<count>'. Got {entry}"
)
_CACHE_FORMAT = "--cache-config option format is '<cache name>,<setting>=<value>'. Got {entry}"
_BOTH_CACHES = (
    "Error: Incompatible flags --response-cache-byte-size and --cache-config both provided. Please "
    "provide one or the other."
)
_LOCAL = "local"


def rate_limit(given: Arguments) -> Listed | None:
    """None: off. An empty list leaves the capacities to what the models need."""
    mode = given.text("rate-limit")
    if mode not in ("off", "execution_count"):
        raise UsageError(
            f"invalid argument for --rate-limit. Use off or execution_count, not '{mode}'."
        )
    listed: dict[tuple[str, str], int] = {}
    for entry in given.many("rate-limit-resource"):
        key, count = _resource(entry)
        listed[key] = min(count, listed.get(key, count))
    return listed if mode == "execution_count" else None


def _resource(entry: str) -> tuple[tuple[str, str], int]:
    name, _, rest = entry.partition(":")
    count, colon, device = rest.partition(":")
    if not name or not _number(count) or (colon and device != "cpu" and not _number(device)):
        raise UsageError(_RESOURCE_FORMAT.format(entry=entry))
    place = f"gpu:{int(device)}" if _number(device) else device
    return (name, place or EVERY_DEVICE), int(count)


def response_cache_bytes(given: Arguments) -> int:
    """0: there is no cache."""
    entries = given.many("cache-config")
    if entries and given.given("response-cache-byte-size"):
        raise UsageError(_BOTH_CACHES)
    if not entries:
        return given.number("response-cache-byte-size")
    settings = _cache_settings(entries)
    size = settings.pop("size", "")
    if settings:
        raise UsageError(f"Error: the local cache has no setting '{min(settings)}', only size.")
    if not _number(size) or int(size) == 0:
        raise UsageError(
            "Error: the local cache must be given a size in bytes greater than 0: "
            f"--cache-config=local,size=1048576, not '{size}'."
        )
    return int(size)


def _cache_settings(entries: list[str]) -> dict[str, str]:
    names: set[str] = set()
    settings: dict[str, str] = {}
    for entry in entries:
        name, comma, setting = entry.partition(",")
        key, equals, value = setting.partition("=")
        if not (name and comma and key and equals):
            raise UsageError(_CACHE_FORMAT.format(entry=entry))
        names.add(name)
        settings[key] = value
    if len(names) > 1:
        raise UsageError(
            f"Error: only one cache can be configured, got {', '.join(sorted(names))}."
        )
    if names != {_LOCAL}:
        raise UsageError(f"Error: there is no cache '{min(names)}' in this server, only local.")
    return settings


def _number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18
