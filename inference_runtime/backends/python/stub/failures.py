"""Exceptions of a model as clients and logs see them."""

import traceback


def failure_text(error: BaseException) -> str:
    """Type and message as they stand, then one line for each frame of the model."""
    lines = [f"{type(error).__name__}: {_message(error)}", "", "At:"]
    own = __file__.rsplit("/", 1)[0]
    lines += [
        f"  {frame.filename}({frame.lineno}): {frame.name}"
        for frame in reversed(traceback.extract_tb(error.__traceback__))
        if not frame.filename.startswith(own)
    ]
    return "\n".join(lines) + "\n"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as another:  # noqa: BLE001  its text is the model's code, too
        return f"<its text can not be had: {type(another).__name__}>"
