"""The one pattern for names of models, aliases and whatever becomes a directory of the repository."""

import re

from inference_runtime.spec.layout import is_plain_name
from webapp.core.errors import InvalidInput

# "--" is reserved: it joins a model and its variant in the repository (resnet50--fp16).
NAME_PATTERN = r"^(?!.*--)[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z"
NAME_RULE = (
    "Use letters, digits, '_', '.' and '-', starting with a letter or digit; '--' is reserved."
)


def name_check(name: object, *, field: str) -> str:
    """The name, or InvalidInput that says what is allowed and points at the field."""
    if isinstance(name, str) and re.match(NAME_PATTERN, name) and is_plain_name(name):
        return name
    shown = repr(name)[:80]
    raise InvalidInput(
        f"{field}: {shown} cannot be a name.",
        reason="BAD_NAME",
        help_text=NAME_RULE,
        errors=[{"pointer": f"/{field}", "detail": NAME_RULE}],
    )
