"""REST: the serving settings of a model."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog.models import InferenceModel
from webapp.catalog.selectors import model_get
from webapp.core.api import (
    ApiView,
    IfMatch,
    body_of,
    call,
    check_if_match,
    etag_of,
    operation_response,
    tried,
    validate_only,
)
from webapp.jobs.models import Job
from webapp.jobs.schema import OPERATION
from webapp.serving import schema, services
from webapp.serving.config_diff import diff_lines
from webapp.serving.selectors import serving_config_row
from webapp.serving.serializers import plan_body, serving_config_body, serving_config_tag


class ServingConfigItem(ApiView):
    write_action = Action.DEPLOY

    @call("getServingConfig", schema.SERVING_CONFIG, tagged=True)
    def get(self, request: Request, name: str) -> Response:
        """Read the serving settings of a model, and the config.pbtxt they make."""
        model = model_get(name=name)
        tag = etag_of(serving_config_tag(serving_config_row(model=model), model))
        return Response(serving_config_body(model), headers={"ETag": tag})

    @call(
        "setServingConfig",
        OPERATION,
        status=202,
        body=schema.SERVING_CONFIG_SET,
        dry_run=schema.SERVING_CONFIG_PREVIEW,
        if_match=IfMatch.NEEDED,
        refusal="INVALID_SERVING_CONFIG",
        example={"max_batch_size": 16, "max_queue_delay_microseconds": 500},
    )
    def put(self, request: Request, name: str) -> Response:
        """Replace the serving settings of a model: one left out gets its default.

        With ?validate_only=true the answer is the config there would be; nothing is reloaded.
        """
        model, actor = model_get(name=name), actor_of(request)
        body = body_of(request)
        values = body.get("settings", body)
        row = serving_config_row(model=model)
        check_if_match(request, serving_config_tag(row, model))

        def saved() -> Job:
            return services.serving_config_set(
                model=model,
                values=values,
                actor=actor,
                expected_revision=row.revision if row is not None else 0,
            )

        if not validate_only(request):
            return operation_response(saved())
        tried(lambda: plan_body(saved()))
        return Response(_preview_body(model, values))


def _preview_body(model: InferenceModel, values: dict[str, Any]) -> dict[str, Any]:
    preview = services.serving_config_preview(model=model, values=values)
    return {
        "model": model.name,
        "settings": preview.values.to_json(),
        "config": preview.text,
        "config_before": preview.before,
        "max_batch_size": preview.max_batch_size,
        "diff": [
            f"{line.sign} {line.text}"
            for line in diff_lines(preview.before, preview.text)
            if line.kind != "same"
        ],
    }
