"""Bodies of score: a query and items in, the items' scores out."""

from typing import Literal

from pydantic import Field

from sie_mcp.wire.items import Body, Item, ItemError, Timing, Usage, VectorType
from sie_mcp.wire_fields import NonNegative, Text

ScoreType = Literal["logit", "probability", "similarity"]


class ScoreOptions(Body):
    """How to score. `raw_scores` returns logits, before any activation.

    `weights` says how much each kind of vector counts, for models that compare vectors.
    `score_mode` sums or averages over the query's token vectors; None: as the checkpoint says.
    `label` is whose probability a classifier of several labels scores by; None: the model's own, or
    with `best_label` whichever is highest, where it has none.
    """

    raw_scores: bool = False
    weights: dict[VectorType, NonNegative] | None = Field(default=None, min_length=1)
    score_mode: Literal["sum", "mean"] | None = None
    label: Text | None = None
    best_label: bool = False
    lora: Text | None = None
    truncate: bool = True
    max_length: int | None = Field(default=None, ge=1)


class ScoreRequest(Body):
    """Body of `POST /v1/score/{model}`."""

    query: Item
    items: list[Item] = Field(min_length=1)
    instruction: Text | None = None
    options: ScoreOptions = Field(default_factory=ScoreOptions)


class Score(Body):
    """One item's score. `index` is its place in the request, `rank` its place by score, from 0.

    `label_scores` are those of all labels, where the model's head has several.
    """

    item_id: str
    index: int
    # None is left out of a body.
    score: float | None = None
    rank: int
    label_scores: dict[str, float] | None = None
    num_tokens: int = 0
    truncated: bool = False
    error: ItemError | None = None


class ScoreResponse(Body):
    """Answer of score: highest first, ties by index, items with an error last."""

    model: str
    query_id: str | None = None
    scores: list[Score]
    score_type: ScoreType
    timing: Timing = Field(default_factory=Timing)
    usage: Usage = Field(default_factory=Usage)
