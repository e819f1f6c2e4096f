"""Runtimes, placements, serving configs and shares of traffic, in the API's description."""

from webapp.catalog.schema import ASKED_FIELDS
from webapp.core.json_schema import (
    OBJECT,
    Schema,
    array,
    body,
    closed,
    flag,
    listed,
    maybe,
    moment,
    named,
    one_of,
    record,
    shape,
    text,
    whole,
)
from webapp.serving.choices import DeploymentState, RuntimeHealth
from webapp.serving.config_values import (
    FIELDS,
    MAX_BATCH,
    MAX_DELAY_MICROSECONDS,
    MAX_INSTANCES,
    MAX_QUEUE,
    MAX_TIMEOUT_MICROSECONDS,
)

HEALTH = one_of(RuntimeHealth.values)
RUNTIME = shape(
    "Runtime",
    {
        "name": text(),
        "http_address": text("host:port"),
        "grpc_address": text("host:port"),
        "metrics_address": text('host:port; "" without.'),
        "embedded": flag("The one that `make run` starts."),
        "health": HEALTH,
        "health_reason": text(),
        "health_since": maybe(moment()),
        "last_seen_at": maybe(moment()),
        "server": record({"name": text(), "version": text()}),
        "extensions": array(text(), "Protocol extensions it announces."),
        "versions": record(
            {
                "desired": whole("How many should be loaded."),
                "loaded": whole("How many of these are."),
                "drifted": whole("How many are not as they should be."),
                "foreign": whole("How many were not put there by us."),
            }
        ),
    },
)
RUNTIMES = listed("RuntimePage", RUNTIME)
_ADDRESSES: dict[str, Schema] = {
    "http_address": text("host:port, no scheme."),
    "grpc_address": text("host:port, no scheme."),
    "metrics_address": text("host:port, no scheme."),
}
_SAVE_ANYWAY = flag("Save it although it does not answer.", default=False)
RUNTIME_NEW = body(
    "RuntimeNew",
    {"name": text("Letters, digits, _ and -.", minLength=1, maxLength=60)},
    {**_ADDRESSES, "save_anyway": _SAVE_ANYWAY},
)
RUNTIME_CHANGE = body("RuntimeChange", {}, {**_ADDRESSES, "save_anyway": _SAVE_ANYWAY})

PLACEMENT = shape(
    "Placement",
    {
        "runtime": text(),
        "model": text(),
        "version": maybe(whole("null: the runtime named none.")),
        "desired": text("`loaded` or `unloaded`."),
        "observed": one_of(DeploymentState.values),
        "reason": text(),
        "since": maybe(moment()),
        "retry_at": maybe(moment("When a failed one is tried again.")),
        "managed": flag("false: not put there by us."),
        "drifted": flag("It is not as it should be."),
    },
)
PLACEMENTS = listed("PlacementPage", PLACEMENT)
_RUNTIME_NAME = text("A runtime's name; chosen for you when left out.")
DEPLOY = body(
    "Deploy",
    {},
    {
        "runtime": _RUNTIME_NAME,
        "traffic": one_of(("", "all"), "`all`: it gets all requests once it is loaded."),
        "allow_unsplit": flag("Also on a runtime that cannot split traffic.", default=False),
    },
)
UNDEPLOY = body(
    "Undeploy",
    {},
    {
        "runtime": _RUNTIME_NAME,
        "out_of_service": flag("Also when it is the last one with traffic.", default=False),
    },
)
DEPLOYMENT_PLAN = shape(
    "DeploymentPlan",
    {**ASKED_FIELDS, "parameters": OBJECT},
    "The operation that would be asked for.",
)
_MICROSECONDS = "In microseconds."
_SETTINGS: dict[str, Schema] = {
    "instance_count": maybe(whole("null: the runtime chooses.", minimum=1, maximum=MAX_INSTANCES)),
    "max_batch_size": maybe(whole("null: as the artifact says.", minimum=0, maximum=MAX_BATCH)),
    "dynamic_batching": flag(),
    "preferred_batch_sizes": array(
        whole(minimum=1, maximum=MAX_BATCH), "Empty: the largest possible batch.", maxItems=64
    ),
    "max_queue_delay_microseconds": whole(_MICROSECONDS, minimum=0, maximum=MAX_DELAY_MICROSECONDS),
    "max_queue_size": whole("0: no limit.", minimum=0, maximum=MAX_QUEUE),
    "default_timeout_microseconds": whole(
        f"0: requests wait as long as it takes. {_MICROSECONDS}",
        minimum=0,
        maximum=MAX_TIMEOUT_MICROSECONDS,
    ),
}
assert tuple(_SETTINGS) == FIELDS
SETTINGS = shape("ServingSettings", _SETTINGS)
_SETTINGS_SENT = named(
    "ServingSettingsSent", closed(_SETTINGS, description="One left out gets its default.")
)
SERVING_CONFIG_SET: Schema = {
    "anyOf": [
        _SETTINGS_SENT,
        closed({"settings": _SETTINGS_SENT}, ["settings"]),
    ]
}
SERVING_CONFIG = shape(
    "ServingConfig",
    {
        "model": text(),
        "revision": whole("Counts the edits; 0: never edited."),
        "settings": SETTINGS,
        "defaults": SETTINGS,
        "editable": array(text()),
        "in_force": maybe(SETTINGS),
        "in_force_revision": whole(),
        "error": text('Why the newest edit is not in force; "" when it is.'),
        "config": text("The config.pbtxt in force."),
        "runtimes": array(
            record(
                {
                    "runtime": text(),
                    "versions": array(whole()),
                    "loaded_at": maybe(moment()),
                    "error": text(),
                }
            )
        ),
    },
)
SERVING_CONFIG_PREVIEW = shape(
    "ServingConfigPreview",
    {
        "model": text(),
        "settings": SETTINGS,
        "config": text("The config.pbtxt there would be."),
        "config_before": text(),
        "max_batch_size": whole(),
        "diff": array(text(), "Lines that go (-) and come (+)."),
    },
)
