"""The checks a version passes, in order: name, what people read, what it proves. Shared with the child."""

from typing import NamedTuple


class CheckKind(NamedTuple):
    name: str
    title: str
    proves: str


CHECKS: tuple[CheckKind, ...] = (
    CheckKind("size_and_quota", "Size", "fits the limits and the free disk"),
    CheckKind("digest", "Digest", "arrived as it was sent, byte for byte"),
    CheckKind("archive", "Archive", "no links, no outside paths, no zip bomb"),
    CheckKind("no_pickle", "No pickle", "nothing inside runs code when opened"),
    CheckKind("layout", "Layout", "exactly one model file is found"),
    CheckKind("config", "Config", "config.pbtxt reads and names this model"),
    CheckKind("onnx_parse", "ONNX file", "is a whole ONNX model"),
    CheckKind("external_data", "External data", "weights outside the file stay inside the folder"),
    CheckKind("opset", "Opset", "the runtime supports the model's opsets"),
    CheckKind("operators", "Operators", "the runtime knows every operator"),
    CheckKind("onnx_checker", "ONNX checker", "the graph is well formed"),
    CheckKind("load", "Load", "ONNX Runtime loads it; time and memory measured"),
    CheckKind(
        "signature", "Inputs and outputs", "names, datatypes and shapes the protocol can carry"
    ),
    CheckKind("config_fit", "Config fits", "config.pbtxt agrees with the model"),
    CheckKind(
        "contract", "Contract", "what clients would notice against the version in production"
    ),
    CheckKind("smoke", "Smoke inference", "answers generated inputs, alone and batched"),
    CheckKind("samples", "Your samples", "answers your samples as you expect"),
)
NOT_REACHED = "Not reached"  # how the detail of a check begins that an earlier failure kept back
CHECK_NAMES: tuple[str, ...] = tuple(kind.name for kind in CHECKS)
TITLES: dict[str, str] = {kind.name: kind.title for kind in CHECKS}
