"""What a call of the API takes and gives, said once: it is checked, and it is what OpenAPI shows."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from webapp.core.json_schema import Schema

JSON = "application/json"
FORM = "multipart/form-data"
BYTES = "application/octet-stream"

Handler = TypeVar("Handler", bound=Callable[..., Any])


class IfMatch(Enum):
    """See docs/adr/0011: needed to replace and delete, taken by actions, refused where there is no tag."""

    NEEDED = "needed"
    TAKEN = "taken"
    REFUSED = "refused"


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class Contract:
    """`eq=False`: a contract is itself, so that what is built from it can be kept beside it."""

    name: str  # operationId
    answer: Schema | None  # None: the answer has no body
    status: int = 200
    also: Collection[int] = ()  # statuses beside `status` with the same body
    body: Schema | None = None  # None: the call takes none
    media_type: str = JSON
    dry_run: Schema | None = None  # what ?validate_only=true answers; None: refused
    if_match: IfMatch = IfMatch.REFUSED
    tagged: bool = False  # answers carry an ETag
    revalidated: bool = False  # the tag covers the whole body: If-None-Match may get 304
    paged: bool = False
    filters: Collection[str] = ()
    orders: Collection[str] = ()
    query: Mapping[str, Schema] = field(default_factory=dict)
    headers: Mapping[str, Schema] = field(default_factory=dict)
    faults: Collection[int] = ()  # beyond those that follow from all this
    refusal: str = "VALIDATION_FAILED"  # the reason when the body has another shape
    refusal_help: str = ""
    example: Any = None
    below_model: bool = False  # also routed below /models/{name}: operationId + "OfModel"

    def query_names(self) -> frozenset[str]:
        names = {*self.query, *self.filters}
        if self.paged:
            names |= {"page_size", "page_token"}
        if self.filters:
            names.add("filter")
        if self.orders:
            names.add("order_by")
        return frozenset(names)


def call(name: str, answer: Schema | None, **terms: Any) -> Callable[[Handler], Handler]:
    """Decorates `get`, `post`, … of an ApiView; `terms` are the fields of Contract."""
    contract = Contract(name=name, answer=answer, **terms)

    def mark(handler: Handler) -> Handler:
        handler.__dict__["contract"] = contract
        return handler

    return mark


def contract_of(view: object, method: str) -> Contract:
    """A handler without a contract is a fault of ours: it does not answer."""
    found: Contract = getattr(view, method.lower()).contract
    return found
