"""The audit log in the API's description."""

from webapp.core.json_schema import OBJECT, listed, maybe, moment, shape, text, whole

AUDIT_EVENT = shape(
    "AuditEvent",
    {
        "id": whole(),
        "at": moment(),
        "actor": text("A user name, or Switchyard itself."),
        "action": text("Such as `rollout.start`."),
        "target": text("A path below /api/v1/."),
        "before": maybe(OBJECT),
        "after": maybe(OBJECT),
        "note": text(),
        "token": text('The API token the actor came with; "" for a browser or Switchyard itself.'),
        "cause": text('The path of the work this is part of; "" when it stands alone.'),
    },
)
AUDIT_EVENTS = listed("AuditEventPage", AUDIT_EVENT)
