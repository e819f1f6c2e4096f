"""Walks an ONNX model: every node and every tensor, in graphs inside graphs and local functions too."""

from collections.abc import Iterator
from typing import Any


def all_nodes(proto: Any) -> Iterator[Any]:
    waiting = [proto.graph.node, *(function.node for function in proto.functions)]
    while waiting:
        for node in waiting.pop():
            yield node
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    waiting.append(attribute.g.node)
                waiting.extend(graph.node for graph in attribute.graphs)


def all_tensors(proto: Any) -> Iterator[Any]:
    """Initializers and constant attributes, wherever they hide."""
    yield from _graph_tensors(proto.graph)
    for node in all_nodes(proto):
        for attribute in node.attribute:
            yield from _attribute_tensors(attribute)
    for training in proto.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)


def _attribute_tensors(attribute: Any) -> Iterator[Any]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    for sparse in [attribute.sparse_tensor, *attribute.sparse_tensors]:
        yield sparse.values
        yield sparse.indices
    for graph in [attribute.g, *attribute.graphs]:
        yield from _graph_tensors(graph)


def _graph_tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
