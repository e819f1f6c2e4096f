"""Silero VAD, batch first: audio, the recurrent state and the end of the chunk before → speech or not.

The published graph wants its state as [2, batch, 128] and chunks that begin with the last 64 samples
of the one before. Both are states here, so that a server with implicit state needs only the audio.
"""

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

CHUNK = 512  # samples at 16 kHz
RATE = 16_000
_CONTEXT = 64


def build(source: Path, target: Path) -> None:
    """Wraps the published graph; writes to `target` at once or not at all."""
    model = onnx.load(str(source))
    graph = model.graph
    before = [
        helper.make_node("Concat", ["context", "audio"], ["input"], axis=1),
        helper.make_node("Transpose", ["state_in"], ["state"], perm=[1, 0, 2]),
    ]
    after = [
        helper.make_node("Transpose", ["stateN"], ["state_out"], perm=[1, 0, 2]),
        helper.make_node("Identity", ["output"], ["speech_prob"]),
        helper.make_node("Slice", ["input", "from", "to", "axis"], ["context_out"]),
    ]
    constants = {"from": [-_CONTEXT], "to": [2**31 - 1], "axis": [1], "sr": RATE}
    wrapped = helper.make_graph(
        [*before, *graph.node, *after],
        "voice",
        _ports({"audio": (CHUNK,), "state_in": (2, 128), "context": (_CONTEXT,)}),
        _ports({"speech_prob": (1,), "state_out": (2, 128), "context_out": (_CONTEXT,)}),
        [
            *graph.initializer,
            *(numpy_helper.from_array(np.array(v, np.int64), k) for k, v in constants.items()),
        ],
    )
    made = helper.make_model(
        wrapped,
        opset_imports=list(model.opset_import),
        ir_version=model.ir_version,
        functions=list(model.functions),
    )
    onnx.checker.check_model(made)
    staged = target.with_suffix(".partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(made.SerializeToString())
    staged.rename(target)


def _ports(ports: dict[str, tuple[int, ...]]) -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *dims])
        for name, dims in ports.items()
    ]


def sung_vowel(seconds: float, pitch: float, seed: int = 0) -> NDArray[np.float32]:
    """Syllables on a pitch with formants, pauses of faint noise between: to this model, speech."""
    count = int(seconds * RATE)
    moments = np.arange(count) / RATE
    random = np.random.default_rng(seed)
    glide = pitch * (1 + 0.03 * np.sin(2 * np.pi * 4.5 * moments))
    phase = 2 * np.pi * np.cumsum(glide) / RATE
    voice = np.zeros(count)
    for harmonic in range(1, 30):
        frequency = harmonic * pitch
        gain = sum(np.exp(-(((frequency - f) / 120) ** 2)) for f in (700, 1220, 2600))
        voice += (gain + 0.02) * np.sin(harmonic * phase) / harmonic**0.5
    syllables = np.clip(np.sin(2 * np.pi * 1.7 * moments + seed), 0, None)
    sound = 0.25 * voice * syllables + 0.002 * random.standard_normal(count)
    return np.asarray(sound, np.float32)


def chunks(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    """[n, 512]: whole chunks only."""
    return sound[: len(sound) // CHUNK * CHUNK].reshape(-1, CHUNK)
