"""Compares what a model takes and gives with its config, and with an earlier version. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference_runtime import pb
from inference_runtime.spec.datatypes import wire_name
from webapp.catalog.tensors import Tensor, shape_words


@dataclass(frozen=True, slots=True)
class Problem:
    detail: str
    fix: str
    hard: bool = True


def config_problems(
    config: pb.ModelConfig, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Problem]:
    batched = config.max_batch_size > 0
    found: list[Problem] = []
    if batched:
        fixed = [row for row in inputs if row.shape[:1] != (-1,)]
        if fixed:
            found.append(
                Problem(
                    f"max_batch_size is {config.max_batch_size}, but the first axis of input "
                    f"{fixed[0].name} is {fixed[0].shape[0] if fixed[0].shape else 'missing'}.",
                    "Set max_batch_size: 0, or export with a dynamic first axis.",
                )
            )
    found.extend(_side(config.input, inputs, "input", batched))
    found.extend(_side(config.output, outputs, "output", batched))
    return found


def contract_changes(
    *,
    before: tuple[Sequence[Tensor], Sequence[Tensor]],
    after: tuple[Sequence[Tensor], Sequence[Tensor]],
) -> list[str]:
    """What clients of the earlier version would notice, one sentence each."""
    changes: list[str] = []
    for role, old_rows, new_rows in (
        ("input", before[0], after[0]),
        ("output", before[1], after[1]),
    ):
        old = {row.name: row for row in old_rows}
        new = {row.name: row for row in new_rows}
        for name in old.keys() - new.keys():
            told = "requests that send it fail" if role == "input" else "clients miss it"
            changes.append(f"{role} {name} is gone ({told}).")
        for name in new.keys() - old.keys():
            if role == "input":
                changes.append(f"input {name} is new (requests without it fail).")
            else:
                changes.append(f"output {name} is new (harmless unless clients count outputs).")
        for name in old.keys() & new.keys():
            changes.extend(_tensor_changes(role, old[name], new[name]))
    return sorted(changes)


def _tensor_changes(role: str, old: Tensor, new: Tensor) -> Iterator[str]:
    if old.datatype != new.datatype:
        yield f"{role} {new.name} is {new.datatype}, was {old.datatype}."
    if old.shape == new.shape:
        return
    if role == "input" and _accepts(new.shape, old.shape):
        return  # everything that fitted before fits now
    yield f"{role} {new.name} has shape {shape_words(new.shape)}, was {shape_words(old.shape)}."


def _accepts(wider: tuple[int, ...], narrower: tuple[int, ...]) -> bool:
    return len(wider) == len(narrower) and all(
        one in (-1, other) for one, other in zip(wider, narrower, strict=True)
    )


def _side(
    rows: Sequence[pb.ModelInput] | Sequence[pb.ModelOutput],
    tensors: Sequence[Tensor],
    role: str,
    batched: bool,
) -> Iterator[Problem]:
    known = {tensor.name: tensor for tensor in tensors}
    for row in rows:
        tensor = known.get(row.name)
        if tensor is None:
            names = ", ".join(known) or "none"
            yield Problem(
                f"config.pbtxt names {role} {row.name!r}; the model has {names}.",
                f"Use the model's own names ({names}) or remove the {role} block.",
            )
            continue
        declared = wire_name(row.data_type)
        if declared != tensor.datatype:
            yield Problem(
                f"config.pbtxt says {role} {row.name} is {declared}; the model says "
                f"{tensor.datatype}.",
                f"Write data_type: TYPE_{_config_word(tensor.datatype)}.",
            )
        yield from _shape_problem(row, tensor, role, batched)


def _shape_problem(
    row: pb.ModelInput | pb.ModelOutput, tensor: Tensor, role: str, batched: bool
) -> Iterator[Problem]:
    dims = row.reshape.shape if row.HasField("reshape") else row.dims
    declared = (-1, *dims) if batched else tuple(dims)
    fits = len(declared) == len(tensor.shape) and all(
        -1 in (one, other) or one == other
        for one, other in zip(declared, tensor.shape, strict=True)
    )
    if fits:
        return
    expected = list(tensor.shape[1:] if batched else tensor.shape)
    without = " (the batch axis is left out)" if batched else ""
    yield Problem(
        f"config.pbtxt gives {role} {row.name} dims {list(row.dims)}; the model's shape is "
        f"{list(tensor.shape)}.",
        f"Write dims: {expected}{without}.",
        # Declared output shapes are often wrong in the file itself; only what comes out decides.
        hard=role == "input",
    )


def _config_word(datatype: str) -> str:
    return "STRING" if datatype == "BYTES" else datatype
