"""Request headers that become parameters of the inference: which, and how they get there.

Patterns are RE2's, whose matching takes linear time whatever an operator writes.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, cast

from inference_runtime.errors import InvalidArgument, RuntimeFault, SingleAnswerOnly
from inference_runtime.frontends.core_port import InferenceCore
from inference_runtime.protocol.memo import Memo
from inference_runtime.spec.messages import InferRequest, RequestHead

_RESERVED: Final = frozenset(
    {
        "sequence_id",
        "sequence_start",
        "sequence_end",
        "priority",
        "timeout",
        "headers",
        "binary_data_output",
    }
)
_RESERVED_PREFIX: Final = "triton_"
_NAMES: Final = 4096
_HEADS: Final = 1024
_HEADS_BYTES: Final = 8 << 20

Headers = Iterable[tuple[str, str]]  # names as they were sent


class HeaderPattern:
    """Says whether the name of a header matches, anywhere in it and in any case unless `(?-i)` leads."""

    def __init__(self, text: str) -> None:
        """Raises ValueError when the text is no pattern."""
        import re2  # only servers with a pattern pay for it

        self.text = text

        options = re2.Options()
        options.log_errors = False
        try:
            self._pattern = re2.compile(f"(?i){text}", options=options)
        except re2.error as error:
            raise ValueError(f'The pattern "{text}" is none of RE2: {_reason(error)}') from error
        self._known: Memo[str, bool] = Memo(limit_count=_NAMES, limit_bytes=1 << 20)

    def matches(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            known = self._pattern.search(name) is not None
            self._known.put(name, known, len(name))
        return known


class ForwardingCore:
    """The core as a front end with a pattern sees it: requests get their headers on the way in.

    Equal heads with equal headers become one head again, so that what is remembered by heads holds.
    """

    def __init__(self, core: InferenceCore, pattern: HeaderPattern) -> None:
        self._core = core
        self._pattern = pattern
        self._heads: Memo[Any, RequestHead] = Memo(limit_count=_HEADS, limit_bytes=_HEADS_BYTES)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def infer(self, request: InferRequest) -> None:
        try:
            request.head = self._head(request.head, request.context.sent_headers())
        except InvalidArgument as fault:
            refusal = self._denial(request) or fault
            self._core.count_refused(refusal.reason)
            request.done(request, refusal)
            return
        self._core.infer(request)

    def _denial(self, request: InferRequest) -> RuntimeFault | None:
        """What goes before any fault of the headers: no such model, or none for a single answer."""
        head = request.head
        try:
            config = self._core.model_config(head.model_name, head.version)
        except RuntimeFault as missing:
            return missing
        several = config.model_transaction_policy.decoupled and request.partial is None
        return SingleAnswerOnly() if several else None

    def _head(self, head: RequestHead, headers: Headers) -> RequestHead:
        found = tuple(pair for pair in headers if self._pattern.matches(pair[0]))
        if not found:
            return head
        key = (head, found)
        with_headers = self._heads.get(key)
        if with_headers is None:
            for name, _ in found:
                _refuse_reserved(name)
            with_headers = replace(head, parameters={**head.parameters, **dict(found)})
            self._heads.put(key, with_headers, sum(len(n) + len(v) + 64 for n, v in found))
        return with_headers


def forwarding(core: InferenceCore, pattern: HeaderPattern | None) -> InferenceCore:
    """The core itself where there is no pattern, so that nobody pays for it."""
    if pattern is None:
        return core
    return cast("InferenceCore", ForwardingCore(core, pattern))


def _reason(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def _refuse_reserved(name: str) -> None:
    if name in _RESERVED or name.startswith(_RESERVED_PREFIX):
        raise InvalidArgument(
            f"Header '{name}' is reserved for Triton usage and cannot be forwarded."
        )
