"""One RequestHead for equal requests: whoever remembers a verdict by the head's identity finds it again."""

from typing import Any, Final

from inference_runtime.protocol.memo import Memo
from inference_runtime.protocol.request_parameters import RequestParameters
from inference_runtime.spec.messages import RequestedOutput, RequestHead, TensorHead

_HEADS: Final = 4096
_HEAD_SIZE: Final = 16384  # what a head may plausibly weigh; bigger ones are not worth remembering


class RequestHeads:
    """Interns heads by what they say. Pure but for its memory."""

    __slots__ = ("_memo",)

    def __init__(self) -> None:
        self._memo: Memo[Any, RequestHead] = Memo(limit_count=_HEADS)

    def head(
        self,
        target: tuple[str, str],
        inputs: tuple[TensorHead, ...],
        outputs: tuple[RequestedOutput, ...],
        parameters: RequestParameters,
    ) -> RequestHead:
        key = (
            target,
            tuple((tensor.name, tensor.datatype, tensor.shape) for tensor in inputs),
            tuple((out.name, out.class_count, out.binary, out.region) for out in outputs),
            parameters.identity(),
        )
        head = self._memo.get(key)
        if head is None:
            head = RequestHead(
                model_name=target[0],
                version=target[1],
                inputs=inputs,
                outputs=outputs,
                parameters=parameters.custom,
                priority=parameters.priority,
                timeout_us=parameters.timeout_us,
                sequence_id=parameters.sequence_id,
                sequence_start=parameters.sequence_start,
                sequence_end=parameters.sequence_end,
                binary_default=parameters.binary_default,
                empty_final=parameters.empty_final,
            )
            if _weight(head) <= _HEAD_SIZE:
                self._memo.put(key, head)
        return head


def _weight(head: RequestHead) -> int:
    """Bytes of what a client chose freely, roughly."""
    tensors = sum(len(tensor.name) + 16 * len(tensor.shape) for tensor in head.inputs)
    outputs = sum(len(output.name) + 64 for output in head.outputs)
    custom = sum(
        len(key) + (len(value) if isinstance(value, str) else 16)
        for key, value in head.parameters.items()
    )
    return tensors + outputs + custom + len(str(head.sequence_id))
