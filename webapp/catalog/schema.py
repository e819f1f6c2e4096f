"""Models, versions and names that point at them, in the API's description."""

from webapp.catalog.choices import CheckStatus, Stage, VersionState
from webapp.core.json_schema import (
    OBJECT,
    array,
    body,
    closed,
    file,
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
from webapp.jobs.schema import JOB_KIND, operation_with

_NUMBER = whole("A version's number.", minimum=1)
VERSION_STATE = one_of(VersionState.values)
MODEL = shape(
    "Model",
    {
        "name": text(),
        "description": text(),
        "latest_version": maybe(whole("The highest number given so far.")),
        "stages": record({stage: maybe(_NUMBER) for stage in Stage.values}),
        "aliases": {"type": "object", "additionalProperties": _NUMBER},
        "created_at": moment(),
        "created_by": maybe(text("A user name.")),
    },
)
MODELS = listed("ModelPage", MODEL)
MODEL_NEW = body(
    "ModelNew",
    {"name": text("Letters, digits, . _ - ; what clients call.", minLength=1, maxLength=100)},
    {"description": text()},
)
MODEL_CHANGE = body("ModelChange", {}, {"description": text()})
MODEL_REMOVAL = shape(
    "ModelRemoval", {"name": text(), "versions": array(_NUMBER, "Versions that would go.")}
)

CHECK = shape(
    "Check",
    {
        "name": text(),
        "status": one_of(CheckStatus.values),
        "detail": text("What was found."),
        "fix": text('What to do; "" when nothing is to be done.'),
    },
)
TENSOR = shape(
    "Tensor",
    {
        "name": text(),
        "datatype": text("As in the v2 protocol: FP32, INT64, BYTES, …"),
        "shape": array(whole(), "-1 for what may vary, the batch axis included."),
    },
)
FILE = shape(
    "File",
    {"name": text(), "size_bytes": whole(minimum=0), "sha256": text("In hexadecimal.")},
)
VERSION = shape(
    "Version",
    {
        "model": text(),
        "version": _NUMBER,
        "state": VERSION_STATE,
        "checks": array(CHECK),
        "rejection": maybe(CHECK),
        "inputs": array(TENSOR),
        "outputs": array(TENSOR),
        "files": array(FILE),
        "variants": array(OBJECT, "Builds of this version."),
        "backend": text(),
        "config": text("config.pbtxt as uploaded or made."),
        "metadata": OBJECT | {"description": "What the checks read from the file."},
        "size_bytes": whole(minimum=0),
        "digest": text(),
        "filename": text("As uploaded."),
        "note": text(),
        "operation": maybe(text("The operation that checks or checked it.")),
        "created_at": moment(),
        "created_by": maybe(text("A user name.")),
        "published_at": maybe(moment("When it became READY.")),
    },
    "Immutable but for its note.",
)
VERSIONS = listed("VersionPage", VERSION)
VERSION_CHANGE = body("VersionChange", {}, {"note": text("For people.", maxLength=2000)})
VERSION_OPERATION = operation_with("VersionOperation", version=_NUMBER)
VERSION_UPLOAD = named(
    "VersionUpload",
    closed(
        {
            "file": file("The model: .onnx, .py, or an archive of a version's folder."),
            "config": {"anyOf": [text("A config.pbtxt."), file("The same as a file.")]},
            "samples": file("Inputs to try it on: .json or .npz."),
            "sha256": text("Of `file`: checked before anything is made of it."),
            "note": text("For people.", maxLength=2000),
        },
        ["file"],
    ),
)
ASKED_FIELDS = {
    "kind": JOB_KIND,
    "target": text("The path of what it would make or change.", format="uri-reference"),
}
ASKED = shape("OperationAsked", ASKED_FIELDS)

ALIAS = shape(
    "Alias", {"model": text(), "alias": text(), "version": _NUMBER, "updated_at": moment()}
)
ALIASES = listed("AliasPage", record({"alias": text(), "version": _NUMBER}))
ALIAS_SET = body("AliasSet", {"version": _NUMBER})
STAGES = listed("StagePage", record({"stage": one_of(Stage.values), "version": maybe(_NUMBER)}))
STAGE_SET = body(
    "StageSet",
    {"version": _NUMBER},
    {
        "expected_version": whole("What it must point at now; null: at nothing."),
        "reason": text("For the log.", maxLength=300),
    },
)
PROMOTION = shape(
    "Promotion",
    {
        "id": whole(),
        "at": moment(),
        "model": text(),
        "stage": one_of(Stage.values),
        "from_version": maybe(_NUMBER),
        "to_version": _NUMBER,
        "by": maybe(text("null: Switchyard itself.")),
        "reason": text(),
    },
)
PROMOTIONS = listed("PromotionPage", PROMOTION)
