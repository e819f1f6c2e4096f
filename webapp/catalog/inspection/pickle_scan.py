"""Tells pickled Python objects by their bytes, without ever loading one."""

import pickletools
from io import BytesIO
from pathlib import Path

_HEAD_BYTES = 256 * 1024
_LOADS_CODE = frozenset({"GLOBAL", "STACK_GLOBAL", "REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"})
_BY_NAME = {
    ".pkl": "a Python pickle",
    ".pickle": "a Python pickle",
    ".joblib": "a joblib file",
    ".pt": "a PyTorch file",
    ".pth": "a PyTorch file",
    ".ckpt": "a checkpoint",
    ".dill": "a Python pickle",
}
EXPORT_HINT = (
    "Export the model to ONNX and upload that, for PyTorch: "
    'torch.onnx.export(model, example_inputs, "model.onnx", dynamo=True); for scikit-learn: skl2onnx.'
)


def pickled(path: Path, name: str) -> str:
    """What kind of pickle the file is, in words; "" when it is none."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if path.suffix.lower() in _BY_NAME:
        return _BY_NAME[path.suffix.lower()]
    if name.endswith("data.pkl") or (head.startswith(b"PK\x03\x04") and b"data.pkl" in head):
        return "a PyTorch file"
    if head.startswith(b"\x93NUMPY") and b"'descr': '|O'" in head[:512]:
        return "a NumPy array of Python objects"
    return "a Python pickle" if _reads_as_pickle(head) else ""


def _reads_as_pickle(head: bytes) -> bool:
    """Weights may start with any byte, so one magic byte proves nothing: walk the opcodes.

    Seen as pickle: opcodes that name or call a Python object, or a stream that ends properly
    with STOP after more than a few opcodes.
    """
    binary = len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5
    if not binary and not _text_pickle_start(head):
        return False
    count = 0
    try:
        for opcode, _, _ in pickletools.genops(BytesIO(head)):
            count += 1
            if opcode.name in _LOADS_CODE and count > 1:
                return True
            if opcode.name == "STOP":
                return count > 2
    except (ValueError, IndexError, OverflowError, UnicodeError):
        # Cut off by our own limit, not by the file: long runs of valid opcodes are no accident.
        return binary and count > 30
    return False


def _text_pickle_start(head: bytes) -> bool:
    """Protocol 0 and 1 have no magic; these are how they begin in practice."""
    return head[:1] in (b"c", b"(", b"]", b"}") and head[-1:] == b"." and len(head) < _HEAD_BYTES
