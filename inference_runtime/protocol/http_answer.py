"""The answer to an infer request as JSON, with the binary tensors that follow it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from inference_runtime.protocol import classification, json_tensors
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import (
    Bytes,
    InferResponse,
    RequestedOutput,
    RequestHead,
    ResponseHead,
    TensorHead,
)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`json_size` is 0 when no byte follows the JSON: then it is an ordinary JSON answer."""

    json: bytes
    binary: Sequence[Bytes]
    binary_size: int

    @property
    def json_size(self) -> int:
        return len(self.json) if self.binary_size else 0


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """What encoding needs to know of the version that answered, beyond its answer."""

    labels: Mapping[str, Sequence[str]]
    batching: bool


def facts_of(version: Any) -> VersionFacts:
    """Of the LoadedVersion a request was routed to."""
    return VersionFacts(labels=version.labels, batching=version.config.batching)


_DEFAULT: Final = RequestedOutput("")
_DEFAULT_TEXT: Final = RequestedOutput("", binary=False)


def wanted(head: RequestHead) -> Mapping[str, RequestedOutput]:
    """By output name; empty when the request lists none and gets all."""
    return {output.name: output for output in head.outputs}


def is_plain(request: RequestHead, response: ResponseHead) -> bool:
    """Every output goes out as the bytes it came in: the text of the answer depends on nothing else."""
    if not all(json_tensors.item_size(output.datatype) for output in response.outputs):
        return False  # BYTES: the sizes in the text vary from answer to answer
    if not request.outputs:
        return request.binary_default
    asked = wanted(request)
    return all(
        output.name in asked and _goes_as_it_is(asked[output.name]) for output in response.outputs
    )


def _goes_as_it_is(how: RequestedOutput) -> bool:
    return how.region is not None or (how.binary and not how.class_count)


def encode(request: RequestHead, id_: str, answer: InferResponse, version: Any) -> HttpAnswer:
    asked = wanted(request)
    fallback = _DEFAULT if request.binary_default else _DEFAULT_TEXT
    texts: list[bytes] = []
    binary: list[Bytes] = []
    for output, data in zip(answer.head.outputs, answer.data, strict=True):
        how = asked.get(output.name, fallback)
        if asked and output.name not in asked:
            continue
        if how.class_count:
            facts = facts_of(version)
            output, data = classification.classify(
                output, data, how.class_count, facts.labels.get(output.name, ()), facts.batching
            )
        if how.region is not None:
            texts.append(_entry(output, b""))
        elif how.binary:
            texts.append(_entry(output, b'"parameters":{"binary_data_size":%d}' % len(data)))
            binary.append(data)
        else:
            text = json_tensors.encode(output.name, BY_WIRE[output.datatype], data)
            texts.append(_entry(output, b'"data":' + text))
    json = opening(answer.head, id_) + b",".join(texts) + b"]}"
    return HttpAnswer(json, binary, sum(map(len, binary)))


def opening(head: ResponseHead, id_: str) -> bytes:
    """The object up to and including `"outputs":[`."""
    fields: dict[str, Any] = {"id": id_} if id_ else {}
    fields["model_name"] = head.model_name
    fields["model_version"] = head.model_version
    if head.parameters:
        fields["parameters"] = dict(head.parameters)
    return orjson.dumps(fields)[:-1] + b',"outputs":['


def _entry(output: TensorHead, last: bytes) -> bytes:
    """`last`: the member that leads to the data; b"" when that lies in shared memory."""
    text = orjson.dumps({"name": output.name, "datatype": output.datatype, "shape": output.shape})
    return text[:-1] + b"," + last + b"}" if last else text
