"""What validation found out about a request head, for one version: how its data meets the model.

A plan is made once per distinct head and shared by all requests with that head, so everything a
scheduler needs to join and split a batch is decided here and not again per request.
"""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class RequestPlan:
    """Compared by identity. Tuples "by config input" have one entry per input of the config, in its order."""

    batch_size: int  # rows the request adds to a batch; 1 for a model that does not batch
    sources: tuple[int, ...]  # by config input: index into request.data; -1: optional and absent
    in_order: bool  # request.data is exactly the config's inputs in its order
    shapes: tuple[
        tuple[int, ...], ...
    ]  # by config input, with the batch dimension; () where absent
    byte_sizes: tuple[int, ...]  # by entry of request.data; -1: BYTES, whose size varies
    merge_key: Hashable  # equal keys may share a batch; None for most models: everything merges
    outputs: tuple[int, ...]  # indexes into config.outputs, in the order of the answer
    output_names: tuple[str, ...]
    all_outputs: bool  # `outputs` is every output, in the config's order
