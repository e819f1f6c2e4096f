"""Pages: the live board, and the data of every board."""

from datetime import UTC, datetime
from typing import Any, cast, get_args

from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from webapp.accounts.permissions import Action, requires
from webapp.catalog.models import InferenceModel
from webapp.core.errors import InvalidInput, NotFound
from webapp.serving.models import Runtime
from webapp.telemetry.boards import Board, Kind, board_data
from webapp.telemetry.first_call import first_call
from webapp.telemetry.golden import golden_numbers
from webapp.telemetry.models import ServingSample
from webapp.telemetry.ranges import DEFAULT_RANGE, RANGES
from webapp.telemetry.selectors import STALE_AFTER, data_at, last_seen, range_length


@requires(Action.VIEW)
def live_page(request: HttpRequest) -> HttpResponseBase:
    board = _board(request)
    range_length(name=board.range_name)
    models, runtimes = _model_names(), list(Runtime.objects.values_list("name", flat=True))
    _require(board.model, models, "model")
    _require(board.runtime, runtimes, "runtime")
    newest = data_at()
    context = {
        "board": board,
        "golden": golden_numbers(board),
        "ranges": list(RANGES),
        "models": models,
        "runtimes": runtimes,
        "silent": silent_runtimes(),
        "data_at": newest,
        "stale": newest is None or timezone.now() - newest > STALE_AFTER,
        "nothing_served": not _served(board),
        "first_call": first_call(model=board.model, runtime=board.runtime),
    }
    return render(request, "telemetry/live.html", context)


@requires(Action.VIEW)
def figures_json(request: HttpRequest) -> HttpResponseBase:
    return JsonResponse(board_data(board=_board(request)))


def silent_runtimes() -> list[dict[str, Any]]:
    seen, now = last_seen(), timezone.now()
    return [
        {"name": runtime.name, "seen_at": seen.get(runtime.id), "reason": runtime.health_reason}
        for runtime in Runtime.objects.all()
        if runtime.id not in seen or now - seen[runtime.id] > STALE_AFTER
    ]


def _served(board: Board) -> bool:
    rows = ServingSample.objects.filter(requests__gt=0)
    if board.model:
        rows = rows.filter(model_name=board.model)
    if board.runtime:
        rows = rows.filter(runtime__name=board.runtime)
    return rows.exists()


def _require(chosen: str, names: list[str], what: str) -> None:
    if chosen and chosen not in names:
        raise NotFound(
            f"There is no {what} {chosen!r}.",
            reason=f"{what.upper()}_NOT_FOUND",
            help_text="Open the live page without filters and choose from its lists.",
        )


def _model_names() -> list[str]:
    """Models of the catalogue, and those that only a runtime knows."""
    names = set(InferenceModel.objects.values_list("name", flat=True))
    names |= set(
        ServingSample.objects.filter(seconds=60).values_list("model_name", flat=True).distinct()
    )
    return sorted(names)


# -- what the URL says ------------------------------------------------------------------------
def _board(request: HttpRequest) -> Board:
    asked = request.GET
    kind = asked.get("board", "live")
    if kind not in get_args(Kind):
        raise InvalidInput(f"There is no board {kind!r}.", reason="BAD_BOARD")
    return Board(
        kind=cast(Kind, kind),
        model=asked.get("model", ""),
        runtime=asked.get("runtime", ""),
        range_name=asked.get("range") or DEFAULT_RANGE,
        since=_moment(asked.get("since", "")),
        until=_moment(asked.get("until", "")),
        stable=_number(asked.get("stable", "")),
        canary=_number(asked.get("canary", "")),
    )


def _number(raw: str) -> int | None:
    return int(raw) if raw.isascii() and raw.isdigit() else None


def _moment(raw: str) -> datetime | None:
    """ISO 8601, or milliseconds since 1970 as the charts count."""
    if not raw:
        return None
    try:
        if raw.isascii() and raw.isdigit():
            return datetime.fromtimestamp(int(raw) / 1000, tz=UTC)
        moment = datetime.fromisoformat(raw)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(f"{raw!r} is not a moment.", reason="BAD_PARAMETER") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
