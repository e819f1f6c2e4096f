"""Uploads in parts, in the API's description."""

from webapp.core.json_schema import (
    array,
    body,
    listed,
    maybe,
    moment,
    one_of,
    shape,
    text,
    whole,
)
from webapp.uploads.choices import UploadState

UPLOAD_STATE = one_of(UploadState.values)
SHA256 = text("SHA-256 in hexadecimal.", pattern="^[0-9a-f]{64}$")
PART = shape(
    "UploadPart",
    {
        "number": whole("From 1.", minimum=1),
        "size_bytes": whole(minimum=1),
        "sha256": SHA256,
    },
)
UPLOAD = shape(
    "Upload",
    {
        "id": text(),
        "model": text("The model that gets the version; registered when it is new."),
        "filename": text(),
        "size_bytes": whole(minimum=1),
        "sha256": text('Of the whole file; "" while unknown.', pattern="^([0-9a-f]{64})?$"),
        "state": UPLOAD_STATE,
        "part_size": whole("In bytes; every part but the last has this size."),
        "part_count": whole(),
        "received_bytes": whole(),
        "missing_parts": array(whole(), "Numbers of the parts still to send."),
        "proof": maybe(PART),
        "samples": text('The name of the samples sent along; "" without.'),
        "note": text(),
        "created_at": moment(),
        "expires_at": moment("Without another part it is discarded then."),
    },
)
UPLOADS = listed("UploadPage", UPLOAD)
UPLOAD_NEW = body(
    "UploadNew",
    {
        "model": text("Letters, digits, . _ - ; at most 100."),
        "size_bytes": whole("Of the whole file.", minimum=1),
    },
    {
        "filename": text("Its ending tells the kind: model.onnx, model.zip, …"),
        "sha256": text("Of the whole file: checked before anything is made of it."),
        "part_size": whole("In bytes; chosen for you when left out."),
        "config": text("A config.pbtxt."),
        "note": text("For people.", maxLength=2000),
    },
)
UPLOAD_PLAN = shape(
    "UploadPlan", {"size_bytes": whole(), "part_size": whole("The parts it would have.")}
)
UPLOAD_COMPLETE = body(
    "UploadComplete", {}, {"sha256": text("Of the whole file: recommended, checked by the worker.")}
)
