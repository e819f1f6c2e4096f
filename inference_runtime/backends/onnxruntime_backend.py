"""ONNX Runtime: sessions from a config's settings, runs on joined arrays, faults in Triton's words."""

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from inference_runtime.backends.base import (
    Array,
    ArtifactDescription,
    BackendServices,
    ModelArtifact,
    PortDescription,
)
from inference_runtime.backends.onnxruntime_accelerators import check_devices, with_profiles
from inference_runtime.backends.onnxruntime_options import SessionSettings, session_settings
from inference_runtime.backends.onnxruntime_sessions import Sessions, open_session, ort_fault
from inference_runtime.backends.request_fault import RequestFault
from inference_runtime.errors import Internal, InvalidArgument, Unavailable
from inference_runtime.spec.layout import OutsideRoot, resolve_inside
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig

_TYPES = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
    "tensor(bfloat16)": "BF16",
}
_KINDS = {"seq": "SEQUENCE", "sparse_tensor": "SPARSETENSOR"}  # the others have one name
_BFLOAT16 = 16  # onnx.TensorProto.BFLOAT16
_sessions = Sessions()

Run = Callable[[dict[str, Array], list[str]], list[Array]]


class OnnxRuntimeBackend:
    """One instance. CPU instances of a version share a session: its runs may overlap and weights are kept once."""

    utf8_strings = True  # ORT's Python binding takes and gives text, not bytes
    overlapping = True
    per_request = False

    def __init__(self, options: Mapping[str, str], services: BackendServices | None = None) -> None:
        self._options = options
        self._session: Any = None
        self._run: Run | None = None
        self._inputs: tuple[str, ...] = ()
        self._text_inputs: frozenset[int] = frozenset()
        self._optional = False  # inputs may be left out
        self._text_outputs = False
        self._scalars: frozenset[str] = frozenset()
        self._names: dict[tuple[str, ...], list[str]] = {}

    @staticmethod
    def gpu_support() -> bool:
        import onnxruntime

        return "CUDAExecutionProvider" in onnxruntime.get_available_providers()

    @staticmethod
    def describe(
        artifact: ModelArtifact, config: Any, options: Mapping[str, str]
    ) -> ArtifactDescription:
        path = model_file(artifact, config.default_model_filename)
        # The settings a CPU instance will have, so that the session opened here is the one it uses.
        session = _sessions.session(artifact, path, session_settings(config, options))
        inputs = [_port(port) for port in session.get_inputs()]
        inputs += [_port(port, optional=True) for port in session.get_overridable_initializers()]
        outputs = [_port(port) for port in session.get_outputs()]
        return ArtifactDescription(tuple(inputs), tuple(outputs))

    def load(self, artifact: ModelArtifact, config: ModelConfig, instance: InstanceSpec) -> None:
        check_devices(config)
        path = model_file(artifact, config.default_model_filename, instance.name)
        settings = session_settings(config.proto, self._options, instance.gpu)
        if instance.gpu is None:
            session = _sessions.session(artifact, path, settings)
        else:
            settings = replace(settings, providers=with_profiles(settings.providers, config))
            session = open_session(path, settings, artifact.model_directory)
        ports = {port.name: port for port in (*session.get_inputs(), *session.get_outputs())}
        self._session = session
        self._inputs = tuple(spec.name for spec in config.backend_inputs)
        self._text_inputs = frozenset(
            i for i, spec in enumerate(config.backend_inputs) if spec.datatype == "BYTES"
        )
        self._optional = any(spec.optional for spec in config.backend_inputs)
        self._text_outputs = any(port.type == "tensor(string)" for port in session.get_outputs())
        # A scalar of the graph is [1] to clients of a model without batching.
        self._scalars = frozenset(
            spec.name
            for spec in (*config.backend_inputs, *config.outputs)
            if not config.batching
            and spec.reshape is None
            and spec.dims == (1,)
            and spec.name in ports
            and ports[spec.name].shape == []
        )
        self._run = self._runner(session, settings, {p.name: p.type for p in ports.values()})

    def execute(self, inputs: Sequence[Array | None], outputs: Sequence[str]) -> list[Array]:
        asked = tuple(outputs)
        names = self._names.get(asked)
        if names is None:
            names = self._names[asked] = list(asked)
        pairs = zip(self._inputs, inputs, strict=True)
        if self._optional:
            feed = {name: array for name, array in pairs if array is not None}
        else:
            feed = dict(cast("Iterable[tuple[str, Array]]", pairs))
        if self._text_inputs:
            self._decode(feed)
        if self._scalars:
            for name in self._scalars & feed.keys():
                feed[name] = feed[name].reshape(())
        if self._run is None:
            raise Internal("the instance is not loaded")
        answers = self._run(feed, names)
        if self._scalars:
            answers = [
                a.reshape((1,)) if a.ndim == 0 and name in self._scalars else a
                for name, a in zip(names, answers, strict=True)
            ]
        if self._text_outputs:
            answers = [_encode(a) if a.dtype.kind == "O" else a for a in answers]
        return answers

    def unload(self) -> None:
        self._run = None
        self._session = None

    def _decode(self, feed: dict[str, Array]) -> None:
        for index in self._text_inputs:
            name = self._inputs[index]
            if name not in feed:
                continue
            array = feed[name]
            try:
                text = [element.decode() for element in array.ravel().tolist()]
            except UnicodeDecodeError as error:
                raise InvalidArgument(
                    f"input '{name}' holds a string that is not UTF-8, which ONNX models can not take: {error}"
                ) from error
            decoded = np.empty(len(text), dtype=object)
            decoded[:] = text
            feed[name] = decoded.reshape(array.shape)

    def _runner(self, session: Any, settings: SessionSettings, types: Mapping[str, str]) -> Run:
        import onnxruntime

        run_options = None
        if settings.run_entries:
            run_options = onnxruntime.RunOptions()
            for key, value in settings.run_entries:
                run_options.add_run_config_entry(key, value)
        if "tensor(bfloat16)" in types.values():
            return _bfloat16_runner(session, types, run_options)
        return _plain_runner(session, run_options)


def model_file(artifact: ModelArtifact, filename: str, instance: str = "") -> Path:
    """The file of a version; a directory of that name holds `model.onnx` beside its external data."""
    try:
        path = resolve_inside(artifact.directory, filename or "model.onnx", follow_links=True)
    except OutsideRoot as error:
        raise InvalidArgument(f"the model file must lie inside of its version: {error}") from error
    if path.is_dir():
        path = resolve_inside(path, "model.onnx", follow_links=True)
    if not path.is_file():
        raise Unavailable(
            f"unable to find '{path}' for model instance '{instance or artifact.model_name}'"
        )
    return path


def _plain_runner(session: Any, run_options: Any) -> Run:
    # The Python wrapper's `run` looks through the names once more, which costs as much as a small model.
    inner = getattr(session, "_sess", session).run

    def run(feed: dict[str, Array], names: list[str]) -> list[Array]:
        try:
            answers: list[Array] = inner(names, feed, run_options)
        except UnicodeDecodeError as error:
            raise _no_text(error) from error
        except Exception as error:
            raise ort_fault(error) from error
        return answers

    return run


def _bfloat16_runner(session: Any, types: Mapping[str, str], run_options: Any) -> Run:
    """ORT's numpy door does not know BF16: values go in and out as OrtValues over the raw bits."""
    import onnxruntime

    value = onnxruntime.OrtValue
    halves = frozenset(name for name, kind in types.items() if kind == "tensor(bfloat16)")

    def run(feed: dict[str, Array], names: list[str]) -> list[Array]:
        try:
            given = {
                name: value.ortvalue_from_numpy_with_onnx_type(array, _BFLOAT16)
                if name in halves
                else value.ortvalue_from_numpy(array)
                for name, array in feed.items()
            }
            answers = session.run_with_ort_values(names, given, run_options)
            return [
                _bits(answer) if name in halves else answer.numpy()
                for name, answer in zip(names, answers, strict=True)
            ]
        except UnicodeDecodeError as error:
            raise _no_text(error) from error
        except Exception as error:
            raise ort_fault(error) from error

    return run


def _no_text(error: UnicodeDecodeError) -> RequestFault:
    return RequestFault(
        f"an output of the model holds a string that is not UTF-8, which can not be read: {error}"
    )


def _bits(value: Any) -> Array:
    shape = tuple(value.shape())
    count = int(np.prod(shape))
    if count == 0:
        return np.empty(shape, np.uint16)
    # Copied: the memory goes back to ORT together with the value.
    return np.frombuffer(ctypes.string_at(value.data_ptr(), count * 2), np.uint16).reshape(shape)


def _encode(array: Array) -> Array:
    encoded = np.empty(array.size, dtype=object)
    encoded[:] = [element.encode() for element in array.ravel().tolist()]
    return encoded.reshape(array.shape)


def _type_problem(port: Any) -> str:
    kind = port.type.split("(")[0]
    if kind == "tensor":
        return f"unsupported datatype '{port.type}' for I/O '{port.name}' of an ONNX model."
    return (
        f"Unsupported ONNX Type 'ONNX_TYPE_{_KINDS.get(kind, kind.upper())}' "
        f"for I/O '{port.name}', expected 'ONNX_TYPE_TENSOR'."
    )


def _port(port: Any, *, optional: bool = False) -> PortDescription:
    datatype = _TYPES.get(port.type)
    if datatype is None:
        raise InvalidArgument(_type_problem(port))
    shape = tuple(dim if isinstance(dim, int) and dim >= 0 else -1 for dim in port.shape)
    return PortDescription(port.name, datatype, shape, optional)
