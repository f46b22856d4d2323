"""How much each sentence of some texts says about a query: by a score model, or by a pruner.

A pruner reads a text whole and judges each of its sentences there; other models read sentences
alone, so that their neighbours and the query's words are weighed in here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.excerpts import Sentence
from sie_mcp.tools.failures import raise_if_all_failed
from sie_mcp.tools.inputs import Inputs
from sie_mcp.tools.lexical import word_scores
from sie_mcp.tools.selection import LEAST, fuse, select, smooth, worth_keeping

# The labels of a model that prunes.
PRUNED = "pruned"


@dataclass(frozen=True, slots=True)
class ScoredSentences:
    """Scores in the order of the sentences, and why some have none of their own.

    Attributes:
        failed: By the place of a sentence.
        worth: Places that are worth keeping, whatever the budget.
    """

    model: str
    scores: list[float]
    failed: dict[int, wire.ItemError]
    worth: set[int]

    def best(self, sentences: Sequence[Sentence], max_tokens: int) -> list[Sentence]:
        """Return those that are worth it and fit, in their order."""
        costs = [sentence.tokens for sentence in sentences]
        places = select(costs, self.scores, groups_of(sentences), max_tokens, self.worth)
        return [sentences[place] for place in places]


async def score_sentences(
    client: EngineClient,
    model: str,
    query: str,
    inputs: Inputs,
    sentences: Sequence[Sentence],
    progress: Progress,
    least: float = LEAST,
) -> ScoredSentences:
    """Score every sentence; one that failed counts as the worst.

    `least`: how far from the median score to the best one is worth keeping.

    Raises:
        SieError: all of them failed, as the error of the first.
    """
    if model != "auto" and PRUNED in ((await client.model(model)).labels or []):
        return await _by_pruner(client, model, query, inputs, sentences, progress)
    items = [wire.Item(text=sentence.text) for sentence in sentences]
    answer = await client.score(model, wire.Item(text=query), items, progress=progress)
    failed = {score.index: score.error for score in answer.scores if score.error}
    raise_if_all_failed(failed, len(items))
    known = {score.index: score.score for score in answer.scores if score.score is not None}
    worst = min(known.values())
    meaning = [known.get(place, worst) for place in range(len(sentences))]
    words = word_scores(query, [sentence.text for sentence in sentences])
    groups = groups_of(sentences)
    scores = smooth(fuse(meaning, words), groups)
    return ScoredSentences(answer.model, scores, failed, worth_keeping(scores, groups, least))


def groups_of(sentences: Sequence[Sentence]) -> list[int]:
    """Return which text each sentence is of."""
    return [sentence.source for sentence in sentences]


async def _by_pruner(
    client: EngineClient,
    model: str,
    query: str,
    inputs: Inputs,
    sentences: Sequence[Sentence],
    progress: Progress,
) -> ScoredSentences:
    """Keep what the pruner keeps, the best first where that is more than fits."""
    options = wire.ExtractOptions(unit="sentence")
    params = wire.ExtractParams(instruction=query, options=options)
    answer = await client.extract(model, inputs.items, params, progress=progress)
    errors = {place: item.error for place, item in enumerate(answer.items) if item.error}
    raise_if_all_failed(errors, len(inputs.items))
    judged = {
        (source, entity.start): entity
        for source, item in enumerate(answer.items)
        for entity in item.entities
    }
    found = [judged.get((sentence.source, sentence.span.start)) for sentence in sentences]
    return ScoredSentences(
        model=answer.model,
        scores=[entity.score if entity else 0.0 for entity in found],
        failed={n: errors[s.source] for n, s in enumerate(sentences) if s.source in errors},
        worth={n for n, entity in enumerate(found) if entity and entity.label != PRUNED},
    )
