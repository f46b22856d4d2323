"""TEI's `/rerank` and `/predict`, over score and extract; `/rerank` takes Jina's body too."""

from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field, RootModel

from sie_mcp import wire
from sie_mcp.dialects import errors, rerank
from sie_mcp.dialects.operation import DialectBody, Operation, Texts, one
from sie_mcp.dialects.tei import ERROR
from sie_mcp.wire_fields import Text

Single = Annotated[list[Text], Field(min_length=1, max_length=1)]
Pair = Annotated[list[Text], Field(min_length=2, max_length=2)]


class RerankRequest(DialectBody):
    """TEI's body, with `texts`; with `documents` instead it is that of `/v1/rerank`."""

    query: Text
    texts: Texts | None = None
    documents: Annotated[list[Text | rerank.Document], Field(min_length=1)] | None = None
    return_text: bool = False
    return_documents: bool = False
    raw_scores: bool = False
    top_n: int | None = Field(default=None, ge=1)
    truncate: bool | None = None
    truncation_direction: Literal["right", "Right"] = "right"

    @pydantic.model_validator(mode="after")
    def _has_one_list(self) -> Self:
        if (self.texts is None) == (self.documents is None):
            raise ValueError("send either 'texts' (TEI) or 'documents' (Cohere, Jina)")
        return self

    def as_documents(self) -> rerank.RerankRequest:
        """Return the same in the shape of `/v1/rerank`."""
        return rerank.RerankRequest(
            query=self.query,
            documents=list(self.documents or self.texts or []),
            top_n=self.top_n,
            return_documents=self.return_documents,
            raw_scores=self.raw_scores,
            truncate=self.truncate is not False,
        )


class Rank(pydantic.BaseModel):
    """One text's place; `index` is its place in the request."""

    index: int
    score: float
    text: str | None = None


class Ranks(RootModel[list[Rank] | rerank.RerankResponse]):
    """TEI's list, or the answer of `/v1/rerank`, as the body was."""


class PredictRequest(DialectBody):
    """A text, a pair of texts, or a list of [text] and [text, text]."""

    inputs: Text | Pair | Annotated[list[Single | Pair], Field(min_length=1)]
    raw_scores: bool = False
    truncate: bool | None = None
    truncation_direction: Literal["right", "Right"] = "right"

    @property
    def groups(self) -> list[list[str]]:
        """Every input as one or two texts."""
        if isinstance(self.inputs, str):
            return [[self.inputs]]
        return [self.inputs] if self.is_one else self.inputs  # type: ignore[list-item,return-value]

    @property
    def is_one(self) -> bool:
        """Whether there is one input, not a list of them."""
        return isinstance(self.inputs, str) or isinstance(self.inputs[0], str)


class Prediction(pydantic.BaseModel):
    """A label and how sure it is."""

    score: float
    label: str


class Predictions(RootModel[list[Prediction] | list[list[Prediction]]]):
    """Labels by score, or a list of them for each input of a list."""


def _to_score(body: RerankRequest) -> list[wire.Request]:
    return rerank.to_score(body.as_documents())


def _from_score(body: RerankRequest, responses: list[Any]) -> Ranks:
    if body.texts is None:
        return Ranks(rerank.from_score(body.as_documents(), responses))
    ranks = []
    for found in one(responses).scores[: body.top_n]:
        if found.score is None:
            raise errors.item_failure(f"texts[{found.index}]", found.error)
        text = body.texts[found.index] if body.return_text else None
        ranks.append(Rank(index=found.index, score=found.score, text=text))
    return Ranks(ranks)


def _to_predict(body: PredictRequest) -> list[wire.Request]:
    """Make one request of the single texts, and one of each pair."""
    singles = [wire.Item(text=group[0]) for group in body.groups if len(group) == 1]
    requests: list[wire.Request] = []
    if singles:
        options = wire.ExtractOptions(raw_scores=body.raw_scores)
        params = wire.ExtractParams(options=options)
        requests.append(wire.ExtractRequest(items=singles, params=params))
    score = wire.ScoreOptions(
        raw_scores=body.raw_scores, truncate=body.truncate is not False, best_label=True
    )
    requests += [
        wire.ScoreRequest(
            query=wire.Item(text=group[0]), items=[wire.Item(text=group[1])], options=score
        )
        for group in body.groups
        if len(group) == 2
    ]
    return requests


def _from_predict(body: PredictRequest, responses: list[Any]) -> Predictions:
    has_singles = any(len(group) == 1 for group in body.groups)
    singles = iter(responses[0].items if has_singles else ())
    pairs = iter(responses[has_singles:])
    found = []
    for index, group in enumerate(body.groups):
        if len(group) == 1:
            found.append(_of_text(index, next(singles)))
        else:
            found.append(_of_pair(index, one(next(pairs).scores)))
    return Predictions(found[0] if body.is_one else found)


def _of_text(index: int, item: wire.ExtractedItem) -> list[Prediction]:
    if item.error is not None:
        raise errors.item_failure(f"inputs[{index}]", item.error)
    return [Prediction(score=found.score, label=found.label) for found in item.classifications]


def _of_pair(index: int, score: wire.Score) -> list[Prediction]:
    if score.score is None:
        raise errors.item_failure(f"inputs[{index}]", score.error)
    # A head of one label has no name for it but its place, as in TEI.
    labels = score.label_scores or {"0": score.score}
    by_score = sorted(labels.items(), key=lambda pair: -pair[1])
    return [Prediction(score=value, label=label) for label, value in by_score]


OPERATIONS = (
    Operation(
        paths=("/rerank",),
        name="tei_rerank",
        summary="Texts by relevance to a query, in TEI's shape or in that of /v1/rerank",
        body=RerankRequest,
        answer=Ranks,
        error=ERROR,
        to_requests=_to_score,
        from_responses=_from_score,
    ),
    Operation(
        paths=("/predict",),
        name="tei_predict",
        summary="Labels of texts and of pairs, of classifiers",
        body=PredictRequest,
        answer=Predictions,
        error=ERROR,
        to_requests=_to_predict,
        from_responses=_from_predict,
        predicts=True,
    ),
)
