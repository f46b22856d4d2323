"""What all bodies share: items, per-item results, where time went, tokens read."""

from functools import cache
from typing import Any, Literal, TypeVar

import pydantic
from pydantic import AliasChoices, ConfigDict, Field

from sie_mcp.wire_fields import Text
from sie_mcp.wire_images import ImageList

MAX_SPANS = 1000
VectorType = Literal["dense", "sparse", "multivector"]


class Body(pydantic.BaseModel):
    """Base of every body: unknown fields are refused, arrays are allowed."""

    model_config = ConfigDict(
        extra="forbid", arbitrary_types_allowed=True, populate_by_name=True, protected_namespaces=()
    )


class Span(Body):
    """A place in the item's text, text[start:end] in code points."""

    start: int = Field(ge=0)
    end: int = Field(ge=1)


BodyT = TypeVar("BodyT", bound=Body)


def of_ours(kind: type[BodyT], fields: dict[str, Any]) -> BodyT:
    """Return a body as `kind(**fields)` does, a quarter of its time: nothing is checked.

    For answers, of which there is one an item, and whose values are our own. `kind` has no default
    that can change. `fields` become the body's own; all of them are given in the kind's order.
    """
    blank = _blank(kind)
    made = object.__new__(kind)
    # What a copy of a body sets, and in the order of the fields.
    object.__setattr__(made, "__dict__", blank | fields if len(fields) < len(blank) else fields)
    _SET_NAMES(made, set(fields))
    _SET_EXTRA(made, None)
    _SET_PRIVATE(made, None)
    return made


# A slot's own way is twice as fast as looking it up by its name.
_SET_NAMES, _SET_EXTRA, _SET_PRIVATE = (
    pydantic.BaseModel.__dict__[f"__pydantic_{name}__"].__set__
    for name in ("fields_set", "extra", "private")
)


@cache
def _blank(kind: type[Body]) -> dict[str, Any]:
    """Return every field's default, in their order; None for those without one."""
    return {
        name: None if one.is_required() else one.default for name, one in kind.model_fields.items()
    }


class Item(Body):
    """One thing to encode, score or extract from: a text, its token ids, or an image.

    `content` is accepted for `text`, and `image`, for one that stands alone, for `images`.
    `input_ids` are those that the model's own tokenizer makes of a text. `spans` are entities in
    the text, for a model that finds relations between given ones.
    """

    id: Text | None = None
    text: Text | None = Field(default=None, validation_alias=AliasChoices("text", "content"))
    input_ids: list[int] | None = Field(default=None, min_length=1)
    images: ImageList | None = Field(
        default=None, min_length=1, validation_alias=AliasChoices("images", "image")
    )
    spans: list[Span] | None = Field(default=None, max_length=MAX_SPANS)
    metadata: dict[str, Any] | None = None


class ItemError(Body):
    """Why one item has no result; the other items are not affected."""

    code: str
    message: str


class ItemResult(Body):
    """What every per-item result carries. `num_tokens` counts what the model really read."""

    id: str | None = None
    num_tokens: int = 0
    truncated: bool = False
    error: ItemError | None = None


class Timing(Body):
    """Where a request's time went, in milliseconds."""

    total_ms: float = 0.0
    queue_ms: float = 0.0
    tokenization_ms: float = 0.0
    inference_ms: float = 0.0
    postprocessing_ms: float = 0.0


class Usage(Body):
    """Tokens read by the model, special tokens and patches of images included."""

    input_tokens: int = 0
