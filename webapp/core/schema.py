"""The API's description (OpenAPI), made from the contracts of the calls."""

from inspect import cleandoc
from typing import Any

from drf_spectacular.openapi import AutoSchema

from webapp.core.contract import BYTES, FORM, Contract, IfMatch, contract_of
from webapp.core.json_schema import (
    COMPONENTS,
    Schema,
    array,
    flag,
    record,
    shape,
    text,
    whole,
)
from webapp.core.paging import DEFAULT_SIZE, MAX_SIZE

_FAULT = record({"pointer": text("A JSON pointer into the body."), "detail": text()})
_FAULT["properties"]["code"] = text("`unknown`, `required`, `type` or what the check calls it.")
_PROBLEM = shape(
    "Problem",
    {
        "type": text("A stable address of this kind of problem.", format="uri-reference"),
        "title": text(),
        "status": whole("The HTTP status.", minimum=400, maximum=599),
        "detail": text("What happened, in a sentence."),
        "reason": text("Stable, UPPER_SNAKE: for programs.", pattern="^[A-Z][A-Z0-9_]*$"),
        "retryable": flag("Whether the same call may succeed later."),
    },
    "What went wrong (RFC 9457). Some reasons add fields, such as `operation` or `retry_after_seconds`.",
)
COMPONENTS["Problem"]["properties"] |= {
    "instance": text("The call that was refused.", format="uri-reference"),
    "request_id": text("Quote it when you ask for help."),
    "help": text("What to do."),
    "current_etag": text("With 412 and 428: the tag as it is now."),
    "errors": array(_FAULT, "One entry for each field that is wrong."),
}
COMPONENTS["Problem"]["examples"] = [
    {
        "type": "/api/docs/#validation-failed",
        "title": "Invalid input",
        "status": 400,
        "detail": "version: Expected a whole number, got 'four'.",
        "reason": "VALIDATION_FAILED",
        "retryable": False,
        "instance": "/api/v1/models/resnet50/rollouts",
        "request_id": "01JD3Y7Q6XH6B8J1",
        "errors": [
            {
                "pointer": "/version",
                "detail": "Expected a whole number, got 'four'.",
                "code": "type",
            }
        ],
    }
]

_FAULTS = {
    400: "The request cannot be meant: a field, a parameter or a header is wrong.",
    401: "No token, or not a valid one.",
    403: "The role does not allow this; `role_required` names the one that does.",
    404: "There is no such thing.",
    409: "The state of the thing does not allow this now, or the first call with this "
    "Idempotency-Key still runs.",
    412: "Somebody changed it since it was read; `current_etag` is the tag now.",
    413: "The body is too large.",
    415: "The body has another media type.",
    422: "The Idempotency-Key was used with another body.",
    428: "The call needs If-Match.",
    429: "Too many at once; `Retry-After` says when to try again.",
    503: "Something we depend on does not answer; try again.",
}
_SUCCESS = {200: "Done.", 201: "Made.", 202: "Accepted: long work, to be followed.", 204: "Gone."}
_TAG = text("Identifies what was read; send it in If-Match to change exactly that.")
_PATH_WORDS = {
    "name": "The name of the model or runtime.",
    "number": "The version's or part's number.",
    "alias": "The alias, such as `champion`.",
    "stage": "`staging` or `production`.",
    "username": "The person's user name.",
    "job_id": "The operation, such as `op_…`.",
    "run_id": "The benchmark, such as `bm_…`.",
    "rollout_id": "The rollout, such as `ro_…`.",
    "upload_id": "The upload, such as `up_…`.",
    "token_id": "The token's number; not the token itself.",
}


class ApiAutoSchema(AutoSchema):
    """Reads `Contract`s instead of guessing from serializers and querysets."""

    @property
    def contract(self) -> Contract:
        return contract_of(self.view, self.method)

    def get_tags(self) -> list[str]:
        """The collection; below a model, the collection inside it."""
        segments = self.path.removeprefix("/api/v1").strip("/").split("/")
        nouns = [each.split(":")[0] for each in segments if not each.startswith("{")]
        return [nouns[1] if nouns[0] == "models" and len(nouns) > 1 else nouns[0]]

    def get_operation_id(self) -> str:
        below = self.contract.below_model and self.path.startswith("/api/v1/models/")
        name = self.contract.name.replace("{move}", getattr(self.view, "move", ""))
        return f"{name}OfModel" if below else name

    def get_summary(self) -> str:
        return self.get_description().split("\n", 1)[0].replace("`", "").rstrip(".")

    def get_description(self) -> str:  # type: ignore[override]
        handler = getattr(self.view, self.method.lower())
        words = cleandoc(handler.__doc__ or "")
        return words.replace("{move}", getattr(self.view, "move", ""))

    def _is_list_view(self, serializer: Any = None) -> bool:
        return False  # pages are shapes of their own

    def _get_parameters(self) -> list[Any]:
        """Those of the path, as the routes have them, then query and headers of the contract."""
        found = [each for each in super()._get_parameters() if each["in"] == "path"]
        for each in found:
            each["description"] = _PATH_WORDS[each["name"]]
        return [*found, *_query(self.contract, self.method), *_headers(self.contract, self.method)]

    def _get_request_body(self, direction: Any = "request") -> Any:
        contract = self.contract
        if contract.body is None:
            return None
        content: dict[str, Any] = {"schema": contract.body}
        if contract.example is not None:
            content["example"] = contract.example
        shown = contract.body.get("properties") != {}
        needed = contract.media_type == FORM or bool(_needed(contract.body))
        return {"content": {contract.media_type: content}, "required": needed} if shown else None

    def _get_response_bodies(self, direction: Any = "response") -> Any:
        contract = self.contract
        answers = {
            str(status): _answer(contract, status, contract.answer)
            for status in (contract.status, *contract.also)
        }
        if contract.dry_run is not None:
            answers["200"] = _answer_or_dry(contract, answers.get("200"))
        if contract.revalidated:
            answers["304"] = {"description": "Unchanged since the ETag in If-None-Match."}
        for status in _faults(contract, self.method, self.path):
            answers[str(status)] = _problem(_FAULTS[status])
        answers["default"] = _problem("Any other problem.")
        return answers


def add_components(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Postprocessing hook: the shapes that contracts refer to, and the tags."""
    result.setdefault("components", {}).setdefault("schemas", {}).update(sorted(COMPONENTS.items()))
    return result


def _needed(body: Schema) -> Any:
    name = body.get("$ref", "").rsplit("/", 1)[-1]
    return COMPONENTS.get(name, body).get("required")


def _problem(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": _PROBLEM}},
    }


def _answer(contract: Contract, status: int, schema: Schema | None) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": _SUCCESS[status]}
    if schema is not None:
        answer["content"] = {"application/json": {"schema": schema}}
    headers: dict[str, Schema] = {}
    if contract.tagged:
        headers["ETag"] = _TAG
    if status == 201:
        headers["Location"] = text("Where it lives.", format="uri-reference")
    if status == 202:
        headers["Operation-Location"] = text("Where to follow it.", format="uri-reference")
        headers["Retry-After"] = text("Seconds until it is worth a look.")
    if headers:
        # A dry run makes nothing that could be tagged or found.
        sure = headers.keys() - ({"ETag", "Location"} if contract.dry_run is not None else set())
        answer["headers"] = {
            name: {"schema": schema, "required": name in sure} for name, schema in headers.items()
        }
    return answer


def _answer_or_dry(contract: Contract, usual: dict[str, Any] | None) -> dict[str, Any]:
    """200 is the answer of the dry run too, or of nothing else."""
    dry = contract.dry_run or {}
    words = "With `validate_only=true`: what would happen. Nothing was changed."
    if usual is None:
        return {"description": words, "content": {"application/json": {"schema": dry}}}
    if dry is contract.answer:
        return usual | {"description": f"Done. {words}"}
    both = {"anyOf": [contract.answer, dry]}
    return usual | {
        "description": f"Done. {words}",
        "content": {"application/json": {"schema": both}},
    }


def _faults(contract: Contract, method: str, path: str) -> list[int]:
    found = {400, 401, 403, *contract.faults}
    if "{" in path:
        found.add(404)
    if method != "GET":
        found.add(409)
    if contract.body is not None:
        found |= {413} if contract.media_type == BYTES else {413, 415}
    if method == "POST":
        found.add(422)
    if contract.if_match is not IfMatch.REFUSED:
        found.add(412)
    if contract.if_match is IfMatch.NEEDED:
        found.add(428)
    return sorted(found)


def _query(contract: Contract, method: str) -> list[dict[str, Any]]:
    found: dict[str, Schema] = {
        name: text(f"Keeps what has this {name.replace('_', ' ')}.") for name in contract.filters
    }
    found |= contract.query
    if contract.filters:
        fields = ", ".join(sorted(contract.filters))
        found["filter"] = text(
            f'`field=value`, joined by " AND "; also `!=`, `>=`, `<=`. Fields: {fields}.'
        )
    if contract.orders:
        fields = ", ".join(sorted(contract.orders))
        found["order_by"] = text(f"Fields joined by commas, `-` for downwards: {fields}.")
    if contract.paged:
        found["page_size"] = whole(
            f"Items on a page; more than {MAX_SIZE} give {MAX_SIZE}.",
            minimum=1,
            default=DEFAULT_SIZE,
        )
        found["page_token"] = text("`next_page_token` of the page before, as it came.")
    if contract.dry_run is not None:
        found["validate_only"] = flag(
            "A dry run: every check of the real call, and the answer says what would happen.",
            default=False,
        )
    return [_parameter("query", name, schema) for name, schema in found.items()]


def _headers(contract: Contract, method: str) -> list[dict[str, Any]]:
    found = [_parameter("header", name, schema) for name, schema in contract.headers.items()]
    if method == "POST":
        found.append(
            _parameter(
                "header",
                "Idempotency-Key",
                text(
                    "The same key and body within 24 hours get the first answer, and nothing runs "
                    "twice.",
                    minLength=1,
                    maxLength=200,
                ),
            )
        )
    if contract.if_match is not IfMatch.REFUSED:
        words = (
            "The ETag as it was read. Not needed where this makes something new."
            if contract.if_match is IfMatch.NEEDED and 201 in contract.also
            else "The ETag as it was read; the call is refused when it is another by now."
        )
        needed = contract.if_match is IfMatch.NEEDED and 201 not in contract.also
        found.append(_parameter("header", "If-Match", text(words), required=needed))
    if contract.revalidated:
        found.append(_parameter("header", "If-None-Match", text("An ETag; unchanged answers 304.")))
    return found


def _parameter(place: str, name: str, schema: Schema, *, required: bool = False) -> dict[str, Any]:
    plain = {key: value for key, value in schema.items() if key != "description"}
    found = {"in": place, "name": name, "schema": plain}
    if words := schema.get("description"):
        found["description"] = words
    return found | ({"required": True} if required else {})
