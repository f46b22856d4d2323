"""Bodies of extract: items in, what was found in them out."""

from typing import Annotated, Literal

from pydantic import Field

from sie_mcp.wire.items import Body, Item, ItemResult, Timing, Usage
from sie_mcp.wire_fields import Text
from sie_mcp.wire_images import DetectedObject
from sie_mcp.wire_structure import Record, Structure

OffsetUnit = Literal["code_point", "utf16", "byte"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
# A page of small print; a caption takes 20.
MAX_NEW_TOKENS = 1_024


class ExtractOptions(Body):
    """How to extract. `threshold` None means the model's own.

    For classifications: `top_k` keeps the best labels, `raw_scores` returns logits. For labels of
    the caller's own: `hypothesis_template` makes a sentence of a label, which stands at its {}
    ("This example is {}." for texts, "This is a photo of {}." for images, where it is None);
    `multi_label` judges each label alone, so that several or none may hold. For pruners, which are
    asked by `instruction`: `threshold` is from where on a token is kept, `highlight_threshold` from
    where on it is highlighted; `profile` names thresholds of the model's own; `unit` is what they
    judge: each token, neighbours of one label joined, or each sentence by the mean of its tokens.
    None: as the model was made for.

    For entities: `offset_unit` is what start, end and read_to count, of UTF-8 where bytes; entities
    of labels of the caller's own score over `threshold`, or over that of their label in
    `thresholds`. `overlap`: "flat", the default, keeps the better of two that overlap; "nested"
    drops only what crosses; "longest" keeps the longer; "all" keeps all. With `multi_label` one
    place can have several labels. `structure` is what else to look for, or instead of labels.
    For images: `top_k` is also how many objects; `max_tokens` how long a text about one may be.
    """

    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    thresholds: dict[Text, Share] | None = None
    overlap: Literal["flat", "nested", "longest", "all"] | None = None
    offset_unit: OffsetUnit = "code_point"
    highlight_threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    profile: Text | None = None
    unit: Literal["token", "sentence"] | None = None
    windowing: bool = True
    top_k: int | None = Field(default=None, ge=1)
    multi_label: bool | None = None
    hypothesis_template: Text | None = None
    lora: Text | None = None
    raw_scores: bool = False
    structure: Structure | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_NEW_TOKENS)


class ExtractParams(Body):
    """What to extract; `labels` None means every label the model knows."""

    labels: list[Text] | None = Field(default=None, min_length=1)
    instruction: Text | None = None
    options: ExtractOptions = Field(default_factory=ExtractOptions)


class ExtractRequest(Body):
    """Body of `POST /v1/extract/{model}`."""

    items: list[Item] = Field(min_length=1)
    params: ExtractParams = Field(default_factory=ExtractParams)


class Entity(Body):
    """A piece of the item: its text[start:end], in code points, equals `text`."""

    text: str
    label: str
    score: float
    start: int
    end: int
    bbox: list[float] | None = None


class Relation(Body):
    """A typed link between two entities, given by their texts, and their places if known."""

    head: str
    tail: str
    relation: str
    score: float
    head_start: int | None = None
    head_end: int | None = None
    tail_start: int | None = None
    tail_end: int | None = None


class Classification(Body):
    """A label for the whole item; `task` is the question that it answers, where several are."""

    label: str
    score: float
    task: str | None = None


class ExtractedItem(ItemResult):
    """What was found in one item. `read_to` is the character where reading stopped, if it did.

    Of an image: `objects`, the surest first, or the `text` that describes it or stands in it.
    """

    entities: list[Entity] = Field(default=[])
    relations: list[Relation] = Field(default=[])
    classifications: list[Classification] = Field(default=[])
    records: list[Record] = Field(default=[])
    objects: list[DetectedObject] = Field(default=[])
    text: str | None = None
    read_to: int | None = None


class ExtractResponse(Body):
    """Answer of extract: one entry an item, in the order sent."""

    model: str
    items: list[ExtractedItem]
    timing: Timing = Field(default_factory=Timing)
    usage: Usage = Field(default_factory=Usage)
