"""Shares of traffic, series and event marks, in the API's description."""

from webapp.core.json_schema import (
    array,
    flag,
    listed,
    maybe,
    moment,
    number,
    one_of,
    record,
    shape,
    share,
    text,
    whole,
)
from webapp.serving.choices import ArmRole
from webapp.serving.schema import HEALTH
from webapp.telemetry.ranges import RANGES
from webapp.telemetry.totals import METRICS

METRIC = one_of(METRICS)
RANGE = one_of(RANGES)
ARM = shape(
    "TrafficArm",
    {
        "version": whole(minimum=1),
        "variant": maybe(text()),
        "role": one_of(ArmRole.values),
        "configured": share("As set."),
        "applied": maybe(share("As the runtime furthest behind has confirmed; null: none has.")),
        "observed": maybe(share("As seen in requests of late; null: there were none.")),
    },
)
TRAFFIC = shape(
    "Traffic",
    {
        "model": text(),
        "generation": whole("Counts the changes of the table."),
        "salt": text("Changes who gets which arm."),
        "unit_header": text('The header whose value keeps its arm; "" draws for each request.'),
        "converged": flag("Every runtime has the newest table."),
        "arms": array(ARM),
        "runtimes": array(
            record(
                {
                    "runtime": text(),
                    "health": HEALTH,
                    "generation": whole(),
                    "arms": array({"type": "object"}),
                    "applied_at": maybe(moment()),
                    "converged": flag(),
                    "reason": text(),
                }
            )
        ),
        "observed_seconds": number("How far back `observed` looks. In seconds."),
    },
)
SERIES = shape(
    "SeriesPage",
    {
        "metric": METRIC,
        "unit": text(),
        "formula": text("How it is computed."),
        "range": RANGE,
        "step_seconds": number("Between two points. In seconds."),
        "items": array(
            record(
                {
                    "model": text(),
                    "version": whole(),
                    "points": array(
                        {
                            "type": "array",
                            "prefixItems": [moment(), maybe(number())],
                            "minItems": 2,
                            "maxItems": 2,
                        },
                        "[moment, value]; null where nothing is known.",
                    ),
                    "reason": maybe(text("Why values are missing.")),
                }
            )
        ),
        "next_page_token": text(),
    },
)
MARK = shape(
    "EventMark",
    {
        "id": whole(),
        "at": moment(),
        "kind": text(),
        "text": text(),
        "model": text('"" when it concerns all.'),
        "runtime": text('"" when it concerns all.'),
    },
)
MARKS = listed("EventMarkPage", MARK)
