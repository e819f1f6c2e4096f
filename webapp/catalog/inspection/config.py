"""Reads the version's config.pbtxt: does it parse, does it name this model, are its numbers sane."""

import re

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.config_rules import check_dynamic_batching, check_ports
from inference_runtime.spec.config_text import config_from_text
from webapp.catalog.inspection.subject import CheckFailed, Outcome, Subject, passed, skipped, warned

_MOST_BATCH = 4096
_PLACE = re.compile(r"^(\d+):(\d+) : (.*)$", re.DOTALL)
_FILENAME_LINE = re.compile(
    r'^[ \t]*default_model_filename\s*:\s*(["\']).*?\1[ \t]*;?[ \t]*\n?', re.M
)
_LIBRARY_KEY = re.compile(r"(^|_)lib_paths?$|extensions?$")
_BACKENDS = frozenset({"", "onnxruntime"})
_PLATFORMS = frozenset({"", "onnxruntime_onnx"})


def config(subject: Subject) -> Outcome:
    subject.config_text = subject.config_text or subject.assignment.config_text
    if not subject.config_text.strip():
        subject.config_text = ""
        return skipped("There is no config.pbtxt; the runtime completes it from the model.")
    subject.config = _parse(subject.config_text)
    _check_values(subject)
    if not subject.config.default_model_filename:
        return passed(_summary(subject.config))
    name = subject.config.default_model_filename
    subject.config_text = _FILENAME_LINE.sub("", subject.config_text)
    subject.config = _parse(subject.config_text)
    return warned(
        f"{_summary(subject.config)} default_model_filename: {name!r} was removed.",
        "Nothing to do: the model is published as model.onnx.",
    )


def _parse(text: str) -> pb.ModelConfig:
    try:
        return config_from_text(text)
    except InvalidArgument as problem:
        said = str(problem).removeprefix("config.pbtxt can not be read: ")
        found = _PLACE.match(said)
        where = f"line {found[1]}, column {found[2]}: {found[3]}" if found else said
        line = _line(text, int(found[1])) if found else ""
        raise CheckFailed(
            f"config.pbtxt does not read, {where}{line}",
            "Correct that line (field names are Triton's ModelConfig, snake_case), "
            "or upload without a config to have one made.",
        ) from None


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return f" — {lines[number - 1].strip()[:120]}" if 0 < number <= len(lines) else ""


def _check_values(subject: Subject) -> None:
    read = subject.config
    expected = subject.assignment.model_name
    if read.name and read.name != expected:
        raise CheckFailed(
            f"config.pbtxt says name: {read.name!r}, the model is {expected!r}.",
            f'Remove the name line or write name: "{expected}".',
        )
    if read.platform not in _PLATFORMS or read.backend not in _BACKENDS:
        given = f"backend: {read.backend!r}" if read.backend else f"platform: {read.platform!r}"
        raise CheckFailed(
            f"config.pbtxt asks for {given}; versions are served by onnxruntime.",
            'Write backend: "onnxruntime" (or remove the line) and upload an ONNX model.',
        )
    _check_libraries(read)
    if not 0 <= read.max_batch_size <= _MOST_BATCH:
        raise CheckFailed(
            f"config.pbtxt says max_batch_size: {read.max_batch_size}.",
            f"Use 0 (no batching) to {_MOST_BATCH}.",
        )
    if read.max_batch_size == 0 and read.HasField("dynamic_batching"):
        raise CheckFailed(
            "config.pbtxt has dynamic_batching but max_batch_size is 0, so no batch can form.",
            "Set max_batch_size, or remove dynamic_batching.",
        )
    _check_batch_sizes(read)
    _check_tensors(read)
    _check_runtime_rules(read)


def _check_libraries(read: pb.ModelConfig) -> None:
    """The runtime would load them into its own process, and any file of an upload may be one."""
    wanted = list(read.model_operations.op_library_filename)
    accelerators = read.optimization.execution_accelerators
    for entry in (
        *accelerators.gpu_execution_accelerator,
        *accelerators.cpu_execution_accelerator,
    ):
        wanted += [value for key, value in entry.parameters.items() if _LIBRARY_KEY.search(key)]
    if wanted:
        raise CheckFailed(
            f"config.pbtxt names a library to load, {wanted[0]!r}; uploads bring no programs along.",
            "Remove model_operations and parameters that name libraries; whoever runs the server can "
            "publish such a model in its repository.",
        )


def _check_batch_sizes(read: pb.ModelConfig) -> None:
    sizes = list(read.dynamic_batching.preferred_batch_size)
    wrong = [size for size in sizes if not 0 < size <= read.max_batch_size]
    if wrong:
        raise CheckFailed(
            f"preferred_batch_size holds {wrong[0]}, max_batch_size is {read.max_batch_size}.",
            "Preferred sizes lie between 1 and max_batch_size.",
        )


def _check_tensors(read: pb.ModelConfig) -> None:
    for field, rows in (("input", read.input), ("output", read.output)):
        names = [row.name for row in rows]
        if "" in names:
            raise CheckFailed(f"An {field} in config.pbtxt has no name.", "Give it a name.")
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise CheckFailed(
                f"config.pbtxt lists {field} {twice[0]!r} twice.", "Keep one of them."
            )
        untyped = [row.name for row in rows if row.data_type == pb.DataType.Value("TYPE_INVALID")]
        if untyped:
            raise CheckFailed(
                f"{field} {untyped[0]!r} in config.pbtxt has no data_type.",
                "Add data_type, such as TYPE_FP32.",
            )


def _check_runtime_rules(read: pb.ModelConfig) -> None:
    """What else the runtime would refuse at load, in its words."""
    try:
        if read.input and read.output:  # what is left out, the runtime completes from the model
            check_ports(read)
        check_dynamic_batching(read)
    except InvalidArgument as problem:
        raise CheckFailed(
            f"The runtime would refuse config.pbtxt: {problem}",
            "Correct it, or upload without a config to have one made.",
        ) from None


def _summary(read: pb.ModelConfig) -> str:
    counts = f"{len(read.input)} inputs and {len(read.output)} outputs named"
    return f"Reads; max_batch_size {read.max_batch_size}, {counts}."
