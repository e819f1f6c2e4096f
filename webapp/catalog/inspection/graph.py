"""The checks on the ONNX graph before anything runs it: parse, opset, operators, checker."""

from collections import Counter
from typing import Any

from webapp.catalog.inspection.amounts import elements, size
from webapp.catalog.inspection.subject import CheckFailed, Outcome, Subject, passed, warned
from webapp.catalog.inspection.traversal import all_nodes, all_tensors

_LARGEST_PROTO = 2 * 1024**3 - 1
_LEAST_OPSET = 7  # what ONNX Runtime promises to support
_OTHER_MAGIC = {
    b"PK\x03\x04": "a zip archive",
    b"\x89HDF": "an HDF5 file",
    b"GGUF": "a GGUF file",
    b"\x7fELF": "a program",
    b"<": "a page of HTML or XML",
    b"{": "JSON",
    b"version https://git-lfs": "a Git LFS pointer, not the file it stands for",
    b"\x80": "a Python pickle",
}


def onnx_parse(subject: Subject) -> Outcome:
    import onnx
    from google.protobuf.message import DecodeError

    path = subject.model_file
    byte_count = path.stat().st_size
    if byte_count > _LARGEST_PROTO:
        raise CheckFailed(
            f"The file has {size(byte_count)}; protobuf, and so ONNX, ends at 2 GiB.",
            "Export with external data: onnx.save(model, path, save_as_external_data=True).",
        )
    raw = path.read_bytes()
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(raw)
    except DecodeError:
        raise _not_onnx(raw) from None
    if not proto.ir_version or not proto.graph.output or not proto.opset_import:
        raise _not_onnx(raw)
    subject.proto = proto
    subject.metadata |= _facts(proto)
    facts = subject.metadata
    return passed(
        f"IR version {facts['ir_version']}, made by {facts['producer'] or 'an unnamed tool'}, "
        f"{facts['node_count']:,} nodes, {facts['parameter_count']:,} parameters."
    )


def _not_onnx(raw: bytes) -> CheckFailed:
    for magic, what in _OTHER_MAGIC.items():
        if raw.startswith(magic):
            return CheckFailed(f"The file is {what}, not ONNX.", "Upload the exported .onnx file.")
    return CheckFailed(
        f"These {size(len(raw))} are not a whole ONNX model: the file is cut off or something else.",
        "Try onnx.load(path) where the file came from, then export or copy it again "
        "and compare size and SHA-256.",
    )


def _facts(proto: Any) -> dict[str, Any]:
    numbers = (tensor for tensor in all_tensors(proto) if tensor.data_type)
    parameters = sum(elements(list(tensor.dims)) for tensor in numbers)
    return {
        "ir_version": int(proto.ir_version),
        "producer": f"{proto.producer_name} {proto.producer_version}".strip(),
        "opsets": {entry.domain or "ai.onnx": int(entry.version) for entry in proto.opset_import},
        "node_count": sum(1 for _ in all_nodes(proto)),
        "parameter_count": parameters,
    }


def opset(subject: Subject) -> Outcome:
    from webapp.catalog.inspection.supported import newest_ir, newest_opset, ort_version

    opsets: dict[str, int] = subject.metadata["opsets"]
    version = opsets.get("ai.onnx", 0)
    newest = newest_opset()
    if version > newest:
        raise CheckFailed(
            f"The model uses opset {version}; ONNX Runtime {ort_version()} here supports up to {newest}.",
            f"Export again with opset_version={newest}, or convert: "
            f"onnx.version_converter.convert_version(model, {newest}).",
        )
    ir = subject.metadata["ir_version"]
    if ir > newest_ir():
        raise CheckFailed(
            f"The file has IR version {ir}; ONNX Runtime {ort_version()} here reads up to {newest_ir()}.",
            f"Set model.ir_version = {newest_ir()} and save, or export with an older onnx package.",
        )
    listed = ", ".join(f"{domain} {number}" for domain, number in sorted(opsets.items()))
    if version and version < _LEAST_OPSET:
        return warned(
            f"Opsets {listed}: older than {_LEAST_OPSET}, which ONNX Runtime does not promise to run.",
            "Export again with a newer opset if anything below fails.",
        )
    return passed(f"Opsets {listed}; supported here up to {newest}.")


def operators(subject: Subject) -> Outcome:
    from webapp.catalog.inspection.supported import known_operators, ort_version

    known = known_operators()
    local = {(function.domain, function.name) for function in subject.proto.functions}
    used: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for node in all_nodes(subject.proto):
        key = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
        used[key] += 1
        first.setdefault(key, node.name or (node.output[0] if node.output else "unnamed"))
    unknown = sorted(key for key in used if key not in known and key not in local)
    if unknown:
        domain, kind = unknown[0]
        more = f" and {len(unknown) - 1} other operators" if len(unknown) > 1 else ""
        raise CheckFailed(
            f"Operator {kind} of domain {domain or 'ai.onnx'!r}{more} is unknown to ONNX Runtime "
            f"{ort_version()}: {used[unknown[0]]} nodes use it, the first is {first[unknown[0]]!r}.",
            "Export again with standard operators only "
            "(custom operators need a library that this runtime does not load).",
        )
    _refuse_newer_than_opset(subject, known, used)
    return passed(f"{len(used)} kinds of operator, all known to ONNX Runtime {ort_version()}.")


def _refuse_newer_than_opset(
    subject: Subject, known: dict[tuple[str, str], int], used: Counter[tuple[str, str]]
) -> None:
    for domain, kind in sorted(used):
        declared = subject.metadata["opsets"].get(domain or "ai.onnx")
        since = known.get((domain, kind))
        if since and declared and since > declared:
            raise CheckFailed(
                f"Operator {kind} exists from opset {since} on; the model declares {declared}.",
                f"Export again with opset_version={since} or newer.",
            )


def onnx_checker(subject: Subject) -> Outcome:
    import onnx

    path = str(subject.model_file)
    try:
        onnx.checker.check_model(path)
    except Exception as problem:  # noqa: BLE001  (the checker raises several unrelated kinds)
        # The checker knows fewer domains and newer rules than the runtime; loading has the last word.
        return warned(
            f"The ONNX checker objects: {_short(problem)}",
            "It may still run; if a later check fails, start here.",
        )
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as problem:  # noqa: BLE001
        return warned(
            f"Well formed, but shapes do not infer: {_short(problem)}",
            "Clients may see shapes that differ from the declared ones; re-export to be sure.",
        )
    return passed("The graph is well formed and its shapes infer.")


def _short(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    return text[:300] + ("…" if len(text) > 300 else "")
