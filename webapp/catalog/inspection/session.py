"""Loads the model in ONNX Runtime as the runtime would, and reads what goes in and comes out."""

import ctypes
import gc
import os
import re
import resource
import time
from pathlib import Path
from typing import Any

from webapp.catalog.inspection.amounts import size
from webapp.catalog.inspection.subject import CheckFailed, Outcome, Subject, passed
from webapp.catalog.tensors import Tensor, shape_words

_DATATYPES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float": "FP32",
    "double": "FP64",
    "string": "BYTES",
    "bfloat16": "BF16",
}
_TENSOR = re.compile(r"^(?:optional\()?tensor\((\w+)\)\)?$")
# What ONNX Runtime says, in its words → what to do about it.
_ADVICE: tuple[tuple[str, str], ...] = (
    (
        "construct locale",
        'Set the attribute locale="C.UTF-8" on the StringNormalizer node, or install the locale.',
    ),
    (
        "could not find an implementation",
        "ONNX Runtime has no CPU kernel for this operator and datatype: export with another "
        "opset_version, or in FP32.",
    ),
    ("not a registered function/op", "Export again with standard operators only."),
    ("no op registered", "Export again with standard operators only, or a newer opset."),
    ("type error", "Two connected tensors differ in datatype: export again and run onnx.checker."),
    ("bad allocation", "The model needs more memory than a check may use."),
    ("failed to allocate", "The model needs more memory than a check may use."),
)


def load(subject: Subject) -> Outcome:
    import onnxruntime  # noqa: TID251  (the check is whether the library that serves loads it)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    subject.proto = None  # the parsed copy is not needed any more and would count as the model's
    _give_memory_back()
    before = _memory_bytes()
    started = time.monotonic_ns()
    try:
        subject.session = onnxruntime.InferenceSession(
            str(subject.model_file), options, providers=["CPUExecutionProvider"]
        )
    except Exception as problem:  # noqa: BLE001  (any refusal of the library is the finding)
        raise CheckFailed(
            f"ONNX Runtime {onnxruntime.__version__} does not load it: {ort_sentence(problem)}",
            advice(problem),
        ) from None
    took_ms = (time.monotonic_ns() - started) / 1e6
    grown = max(0, _memory_bytes() - before)
    subject.metadata |= {"load_ms": round(took_ms, 1), "load_memory_bytes": grown}
    return passed(
        f"ONNX Runtime {onnxruntime.__version__} loaded it on the CPU in {took_ms:,.0f} ms; "
        f"memory grew by {size(grown)}."
    )


def signature(subject: Subject) -> Outcome:
    subject.inputs = [_tensor(subject, "Input", row) for row in subject.session.get_inputs()]
    subject.outputs = [_tensor(subject, "Output", row) for row in subject.session.get_outputs()]
    if not subject.outputs:
        raise CheckFailed("The model has no output.", "Export it with at least one output.")
    subject.metadata["dim_names"] = subject.dim_names
    return passed(f"{_listed(subject.inputs)} → {_listed(subject.outputs)}")


def peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _give_memory_back() -> None:
    """Freed memory kept by the allocator would hide what the load takes."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def ort_sentence(problem: Exception) -> str:
    """The useful end of ONNX Runtime's message: no error class, no source path, one line."""
    text = " ".join(str(problem).split())
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    text = re.sub(r"/onnxruntime_src/\S+(:\d+)? ", "", text)
    text = re.sub(r"^Load model from \S+ failed:\s*", "", text)
    return text[:400] + ("…" if len(text) > 400 else "")


def advice(problem: Exception) -> str:
    text = str(problem).lower()
    for words, fix in _ADVICE:
        if words in text:
            return fix
    return (
        "Load it the same way where it was made: "
        'onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"]).'
    )


def _tensor(subject: Subject, role: str, row: Any) -> Tensor:
    found = _TENSOR.match(row.type)
    datatype = _DATATYPES.get(found[1]) if found else None
    if datatype is None:
        raise CheckFailed(
            f"{role} {row.name!r} is {row.type}, which the protocol cannot carry.",
            _retype(row.type),
        )
    dims = list(row.shape or [])
    named = ["" if isinstance(dim, int) or dim is None else str(dim) for dim in dims]
    if any(named):
        subject.dim_names[row.name] = [name[:60] for name in named]
    shape = tuple(dim if isinstance(dim, int) and dim >= 0 else -1 for dim in dims)
    return Tensor(row.name, datatype, shape)


def _retype(kind: str) -> str:
    if kind.startswith("seq(map("):
        return "Export with zipmap off, for skl2onnx: options={'zipmap': False}."
    if kind.startswith(("seq", "map", "optional")):
        return "Change the graph so that this is a plain tensor."
    return "Cast it to a standard datatype such as FP32 or INT64 before export."


def _listed(tensors: list[Tensor]) -> str:
    shown = [f"{row.name} {row.datatype} {shape_words(row.shape)}" for row in tensors[:4]]
    more = f" and {len(tensors) - 4} more" if len(tensors) > 4 else ""
    return (", ".join(shown) or "no input") + more
