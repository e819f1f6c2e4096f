"""Finds the one model file of a version and gives the folder the shape that is published.

Accepted: one .onnx file; a folder with one; Triton's own `<version>/model.onnx` with
`config.pbtxt` beside. The model file becomes `model.onnx`; its neighbours keep their names,
because external data is looked up beside it.
"""

from pathlib import Path

from webapp.catalog.inspection.files import files_below
from webapp.catalog.inspection.subject import CheckFailed, Outcome, Subject, passed

_ONNX_HINT = "Upload model.onnx, or an archive with exactly one .onnx file in it."
_OTHER_FORMATS = {
    ".plan": "a TensorRT plan",
    ".engine": "a TensorRT plan",
    ".tflite": "a TFLite model",
    ".h5": "a Keras file",
    ".keras": "a Keras file",
    ".pb": "a TensorFlow graph",
    ".gguf": "a GGUF file",
    ".safetensors": "a weights file without a graph",
    ".mlmodel": "a Core ML model",
    ".xml": "an OpenVINO model",
}


def layout(subject: Subject) -> Outcome:
    content = subject.content
    if subject.assignment.recheck:
        return passed("model.onnx, as published.")
    _lone_file_is_the_model(content)
    config = _take_config(content)
    model = _choose(content)
    found_as = str(model.relative_to(content))
    _lift(content, model.parent)
    lifted = content / model.name
    if lifted != subject.model_file:
        if subject.model_file.exists():
            raise CheckFailed("model.onnx is a folder.", _ONNX_HINT)
        lifted.rename(subject.model_file)
    if config is not None and not subject.assignment.config_text:
        subject.config_text = config
    others = [str(path.relative_to(content)) for path in files_below(content)]
    others.remove("model.onnx")
    renamed = "" if found_as == "model.onnx" else f" (was {found_as})"
    beside = (
        f"; beside it {', '.join(others[:6])}{' …' if len(others) > 6 else ''}" if others else ""
    )
    return passed(f"model.onnx{renamed}{beside}.")


def _lone_file_is_the_model(content: Path) -> None:
    """A single uploaded file is the model whatever it is called; the parser has the last word."""
    files = list(files_below(content))
    if len(files) != 1 or files[0].suffix == ".onnx":
        return
    known = _OTHER_FORMATS.get(files[0].suffix.lower())
    if known:
        raise CheckFailed(f"{files[0].name} is {known}; versions are ONNX files.", _ONNX_HINT)
    if files[0].parent == content:
        files[0].rename(content / "model.onnx")


def _take_config(content: Path) -> str | None:
    """config.pbtxt does not belong into a version's folder; its text is kept with the version."""
    path = content / "config.pbtxt"
    if not path.is_file():
        return None
    if path.stat().st_size > 1024 * 1024:
        raise CheckFailed("config.pbtxt is larger than 1 MiB.", "Upload a plain config.pbtxt.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CheckFailed("config.pbtxt is not UTF-8 text.", "Save it as UTF-8.") from None
    path.unlink()
    return text


def _choose(content: Path) -> Path:
    found = [path for path in files_below(content) if path.suffix == ".onnx"]
    numbered = sorted({path.parent.name for path in found if path.parent.name.isdecimal()}, key=int)
    if len(numbered) > 1:
        raise CheckFailed(
            f"The archive holds several versions: {', '.join(numbered)}.",
            "Upload one version at a time; its number is given here.",
        )
    named = [path for path in found if path.name == "model.onnx"]
    candidates = named if len(named) == 1 else found
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        names = [str(path.relative_to(content)) for path in files_below(content)][:6]
        raise CheckFailed(
            f"There is no .onnx file; there is {', '.join(names) or 'nothing'}.", _ONNX_HINT
        )
    names = [str(path.relative_to(content)) for path in candidates][:6]
    raise CheckFailed(
        f"Which file is the model? There are {len(candidates)}: {', '.join(names)}.",
        "Name the model model.onnx, or pack only one .onnx file.",
    )


def _lift(content: Path, folder: Path) -> None:
    """Move what lies beside the model to the top, where the runtime will look for it."""
    if folder == content:
        return
    aside = folder.rename(content.parent / "lifted")
    for entry in list(aside.iterdir()):
        target = content / entry.name
        if target.exists():
            raise CheckFailed(
                f"{entry.name} exists both at the top and beside the model.",
                "Pack the model's folder only.",
            )
        entry.rename(target)
    aside.rmdir()
    for parent in [folder, *folder.parents]:
        if parent == content:
            return
        if parent.exists() and not any(parent.iterdir()):
            parent.rmdir()
