"""Model files that are cut off, disguised, unknown to the runtime or reach outside their folder."""

import pickle

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests import onnx_models
from tests.publishing import Publishing, checks_by_name, onnx_bytes, zip_of
from tests.webapp.catalog.endless import endless_model

MODEL = onnx_bytes(onnx_models.mlp())


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(publishing: Publishing, kept: float) -> None:
    version = publishing.upload("m", MODEL[: int(len(MODEL) * kept)])

    publishing.assert_rejected(version, "onnx_parse", "not a whole ONNX model", "again")
    assert checks_by_name(version)["load"]["status"] == "skipped"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<!doctype html><title>Not found</title>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
        (b"\x89HDF\r\n\x1a\n" + bytes(64), "HDF5"),
        (bytes(4096), "not a whole ONNX model"),
        (np.random.default_rng(1).bytes(100_000), "not"),
    ],
)
def test_what_is_no_onnx_is_named(publishing: Publishing, content: bytes, words: str) -> None:
    publishing.assert_rejected(publishing.upload("m", content), "onnx_parse", words)


class _Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


@pytest.mark.parametrize(
    ("name", "protocol"), [("model.onnx", 0), ("model.onnx", 4), ("model.pkl", 2), ("model", 5)]
)
def test_a_pickle_is_refused_whatever_it_is_called(
    publishing: Publishing, name: str, protocol: int, capfd
) -> None:
    version = publishing.upload("m", pickle.dumps(_Evil(), protocol=protocol), name)

    publishing.assert_rejected(version, "no_pickle", "pickle", "torch.onnx.export")
    assert "must never run" not in capfd.readouterr().out


def test_a_pickle_beside_a_good_model_is_refused(publishing: Publishing) -> None:
    packed = zip_of({"model.onnx": MODEL, "extra/weights.bin": pickle.dumps(_Evil())})

    publishing.assert_rejected(publishing.upload("m", packed, "m.zip"), "no_pickle", "weights.bin")


@pytest.mark.parametrize(
    "config",
    [
        b'model_operations { op_library_filename: "1/weights.bin" }',
        b"optimization { execution_accelerators { gpu_execution_accelerator { "
        b'name: "tensorrt" parameters { key: "trt_extra_plugin_lib_paths" value: "1/weights.bin" } } } }',
    ],
)
def test_a_config_that_has_the_runtime_load_a_file_as_a_library_is_refused(
    publishing: Publishing, config: bytes
) -> None:
    """Weights beside a model may be any bytes, those of a library among them."""
    packed = zip_of({"model.onnx": MODEL, "config.pbtxt": config})

    version = publishing.upload("m", packed, "m.zip")
    publishing.assert_rejected(version, "config", "'1/weights.bin'", "no programs")


def test_a_pytorch_file_is_refused(publishing: Publishing) -> None:
    packed = zip_of({"archive/data.pkl": pickle.dumps({}), "archive/data/0": bytes(64)})

    publishing.assert_rejected(publishing.upload("m", packed, "m.pt"), "no_pickle", "PyTorch")


def test_weights_that_look_like_a_pickle_at_first_are_taken(
    publishing: Publishing, tmp_path
) -> None:
    """External data may start with any bytes, 0x80 0x04 among them."""
    weights = np.frombuffer(b"\x80\x04" + np.random.default_rng(0).bytes(4094), np.float32)
    model = _external(tmp_path, np.nan_to_num(weights, nan=0.0, posinf=0.0, neginf=0.0))
    version = publishing.upload("m", zip_of(model), "m.zip")

    assert checks_by_name(version)["no_pickle"]["status"] == "passed", version.checks


@pytest.mark.parametrize(
    "location", ["../../switchyard.sqlite3", "/etc/passwd", "a/../../x", "..\\x", "./x", ""]
)
def test_external_data_outside_the_folder_is_refused(
    publishing: Publishing, tmp_path, location: str
) -> None:
    model = _external(tmp_path, np.ones(256, np.float32))
    moved = _relocate(model, location=location)
    version = publishing.upload("m", zip_of({**model, "model.onnx": moved}), "m.zip")

    publishing.assert_rejected(version, "external_data", "outside", "save_as_external_data")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"location": "elsewhere.bin"}, "not in the upload"),
        ({"offset": "4096"}, "reaches to byte"),
        ({"length": str(10**10)}, "needs 1,024 bytes"),
        ({"length": "-1"}, "length"),
        ({"basepath": "/etc"}, "unknown external-data key"),
    ],
)
def test_external_data_that_does_not_fit_is_refused(
    publishing: Publishing, tmp_path, changes: dict[str, str], words: str
) -> None:
    model = _external(tmp_path, np.ones(256, np.float32))
    version = publishing.upload(
        "m", zip_of({**model, "model.onnx": _relocate(model, **changes)}), "m.zip"
    )

    publishing.assert_rejected(version, "external_data", words)


def test_an_unknown_operator_is_named(publishing: Publishing) -> None:
    model = _one_node("FancyAttention", domain="my.ops")
    version = publishing.upload("m", onnx_bytes(model))

    publishing.assert_rejected(
        version, "operators", "FancyAttention", "my.ops", "standard operators"
    )


def test_an_operator_newer_than_the_declared_opset_is_named(publishing: Publishing) -> None:
    version = publishing.upload("m", onnx_bytes(_one_node("Gelu", opset=17)))

    publishing.assert_rejected(version, "operators", "Gelu", "opset_version=20")


def test_an_opset_from_the_future_says_which_one_to_export(publishing: Publishing) -> None:
    version = publishing.upload("m", onnx_bytes(_one_node("Relu", opset=99)))

    publishing.assert_rejected(version, "opset", "opset 99", "opset_version=")


def test_an_output_the_protocol_cannot_carry_is_refused(publishing: Publishing) -> None:
    node = helper.make_node("SequenceConstruct", ["x"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    version = publishing.upload("m", onnx_bytes(model))

    publishing.assert_rejected(version, "signature", "cannot carry")


def test_a_model_that_fails_on_inputs_of_its_own_shape_is_refused(publishing: Publishing) -> None:
    """Reshapes 4 elements to [3]: loads, and can never answer."""
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["s", "zero"], ["t"]),
            helper.make_node("Reshape", ["x", "t"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        [
            numpy_helper.from_array(np.array([3], np.int64), "s"),
            numpy_helper.from_array(np.array([0], np.int64), "zero"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    version = publishing.upload("m", onnx_bytes(model))

    assert version.state == "REJECTED", version.checks
    failed = next(row for row in version.checks if row["status"] == "failed")
    assert failed["name"] in ("load", "smoke")


def test_several_models_in_one_archive_are_refused(publishing: Publishing) -> None:
    version = publishing.upload("m", zip_of({"a.onnx": MODEL, "b.onnx": MODEL}), "m.zip")
    publishing.assert_rejected(version, "layout", "a.onnx, b.onnx", "model.onnx")

    version = publishing.upload(
        "m", zip_of({"1/model.onnx": MODEL, "2/model.onnx": MODEL}), "m.zip"
    )
    publishing.assert_rejected(version, "layout", "1, 2", "one version at a time")


def test_an_archive_without_a_model_is_refused(publishing: Publishing) -> None:
    version = publishing.upload("m", zip_of({"readme.txt": b"hi", "b.txt": b"x"}), "m.zip")

    publishing.assert_rejected(version, "layout", "readme.txt")


def test_a_model_that_needs_too_much_memory_is_refused(publishing: Publishing, settings) -> None:
    settings.CHECK_MEMORY_BYTES = 1500 * 1024**2
    shape = numpy_helper.from_array(np.array([400_000_000], np.int64), "shape")
    value = numpy_helper.from_array(np.array([1], np.float32), "value")
    graph = helper.make_graph(
        [
            helper.make_node("ConstantOfShape", ["shape"], ["big"], value=value),
            helper.make_node("ReduceSum", ["big"], ["sum"], keepdims=1),
            helper.make_node("Add", ["x", "sum"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        [shape],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    version = publishing.upload("m", onnx_bytes(model))

    assert version.state == "REJECTED", version.checks
    failed = next(row for row in version.checks if row["status"] == "failed")
    assert failed["name"] in ("load", "smoke")
    assert "memory" in failed["detail"] + failed["fix"]


def test_a_model_that_never_ends_is_stopped(publishing: Publishing, settings) -> None:
    settings.CHECK_SECONDS = 4
    version = publishing.upload("m", endless_model())

    publishing.assert_rejected(version, "smoke", "SWITCHYARD_CHECK_SECONDS")


def _external(folder, weights: np.ndarray) -> dict[str, bytes]:
    """Files of a model y = x + w whose weights lie in weights.bin."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [len(weights)])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [len(weights)])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    target = folder / "external"
    target.mkdir()
    onnx.save(
        model,
        str(target / "model.onnx"),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    return {path.name: path.read_bytes() for path in target.iterdir()}


def _relocate(files: dict[str, bytes], **changes: str) -> bytes:
    model = onnx.load_model_from_string(files["model.onnx"])
    tensor = model.graph.initializer[0]
    entries = {entry.key: entry.value for entry in tensor.external_data} | changes
    del tensor.external_data[:]
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return model.SerializeToString()


def _one_node(kind: str, *, domain: str = "", opset: int = 17) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(kind, ["x"], ["y"], name="the_node", domain=domain)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=imports, ir_version=8)
