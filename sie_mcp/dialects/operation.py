"""One route of a dialect: what it takes, how it becomes requests of ours, what it answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import pydantic
from pydantic import ConfigDict, Discriminator, Field, Tag

from sie_mcp import wire
from sie_mcp.dialects.errors import ErrorBody
from sie_mcp.wire_fields import Text

AUTO = "auto"
MODEL_HEADER = "X-SIE-Model"
SIDE_HEADER = "X-SIE-Input-Type"
Side = Literal["query", "document"]
# Cohere's words are understood everywhere.
InputType = Side | Literal["search_query", "search_document", "classification", "clustering"]
TokenIds = Annotated[list[Annotated[int, Field(strict=True, ge=0)]], Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1)]


def _shape(given: Any) -> str | None:
    """Tell an input's four shapes apart, so that an error speaks of one of them."""
    if not isinstance(given, list):
        return "text" if isinstance(given, str) else None
    first = given[0] if given else ""
    if isinstance(first, list):
        return "lists"
    return "ids" if isinstance(first, int) else "texts"


# A text, its token ids, or several of either.
Input = Annotated[
    Annotated[Text, Tag("text")]
    | Annotated[TokenIds, Tag("ids")]
    | Annotated[Texts, Tag("texts")]
    | Annotated[list[TokenIds], Field(min_length=1), Tag("lists")],
    Discriminator(
        _shape,
        custom_error_type="input",
        custom_error_message="send a text, token ids, or a list of texts or of lists of ids",
    ),
]


class DialectBody(pydantic.BaseModel):
    """Base of every dialect's request: fields that we do not know are named in the answer.

    `model` defaults to the header X-SIE-Model, then to "auto", the default model of its kind.
    """

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    model: Text | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, body: Any) -> Any:
        """Take null for left out: so clients write down what they were not told."""
        if not isinstance(body, dict):
            return body
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {
            name: value for name, value in body.items() if value is not None or name not in optional
        }


class SidedBody(DialectBody):
    """A request whose texts are queries or documents; None: as X-SIE-Input-Type says."""

    input_type: InputType | None = None

    @property
    def is_query(self) -> bool | None:
        """What the side is to encode."""
        return is_query(self.input_type)


@dataclass(frozen=True, slots=True)
class Operation:
    """A route.

    Attributes:
        paths: The first is its own, the others are other names of it.
        name: Of its figures.
        summary: For the OpenAPI document.
        body: What it takes.
        answer: What it answers.
        error: The model and the maker of its error bodies.
        to_requests: One request of ours or several.
        from_responses: The answer, from the body and our answers in the same order.
        predicts: Only a model with labels of its own will do.
    """

    paths: tuple[str, ...]
    name: str
    summary: str
    body: type[DialectBody]
    answer: type[pydantic.BaseModel]
    error: tuple[type[pydantic.BaseModel], ErrorBody]
    to_requests: Callable[[Any], list[wire.Request]]
    from_responses: Callable[[Any, list[Any]], pydantic.BaseModel]
    predicts: bool = False


def is_query(input_type: str | None) -> bool | None:
    """Return what a side is to encode: neither for what is for comparing alike."""
    if input_type in ("query", "search_query"):
        return True
    return False if input_type in ("document", "search_document") else None


def items_of(given: Any) -> list[wire.Item]:
    """Return the items of an `Input`."""
    if isinstance(given, str):
        return [wire.Item(text=given)]
    if given and isinstance(given[0], int):
        return [wire.Item(input_ids=given)]
    return [
        wire.Item(text=one) if isinstance(one, str) else wire.Item(input_ids=one) for one in given
    ]


def encode(items: list[wire.Item], **params: Any) -> list[wire.Request]:
    """Return one request; `params` are those of `EncodeParams`."""
    return [wire.EncodeRequest(items=items, params=wire.EncodeParams(**params))]


def text_in(document: Any) -> str:
    """Return the text of a document that is one, or an object with one."""
    return document if isinstance(document, str) else cast(str, document.text)


def one(responses: Sequence[Any]) -> Any:
    """Return the only response."""
    (response,) = responses
    return response
