"""The one pattern for names of models, aliases and whatever becomes a directory of the repository."""

import re

from inference_runtime.spec.layout import is_plain_name
from webapp.core.errors import InvalidInput

# "--" is reserved: it joins a model and its variant in the repository (resnet50--fp16).
NAME_LENGTH = 100
NAME_PATTERN = r"^(?!.*--)[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z"
NAME_RULE = (
    "Use letters, digits, '_', '.' and '-', starting with a letter or digit; '--' is reserved."
)


def name_check(name: object, *, field: str, longest: int = NAME_LENGTH) -> str:
    """The name, or InvalidInput that says what is allowed and points at the field."""
    if isinstance(name, str) and len(name) > longest:
        why = f"{len(name):,} characters are too many; at most {longest} are allowed."
        raise _bad_name(field, why, f"Choose a name of at most {longest} characters.")
    if isinstance(name, str) and re.match(NAME_PATTERN, name) and is_plain_name(name):
        return name
    raise _bad_name(field, f"{repr(name)[:80]} cannot be a name.", NAME_RULE)


def _bad_name(field: str, why: str, fix: str) -> InvalidInput:
    return InvalidInput(
        f"{field}: {why}",
        reason="BAD_NAME",
        help_text=fix,
        errors=[{"pointer": f"/{field}", "detail": fix}],
    )
