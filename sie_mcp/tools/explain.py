"""The tool `explain`: why a text is put into its category, node by node."""

from typing import Annotated

import anyio.to_thread
import numpy as np
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.catalogue.taxonomy import SEPARATOR
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.categories.choice import Choice
from sie_mcp.tools.categories.classified_file import ENDINGS, read_classified
from sie_mcp.tools.categories.seen import Seen
from sie_mcp.tools.classification import Classifier, prepare
from sie_mcp.tools.classify_taxonomy import TaxonomyName
from sie_mcp.tools.context import ToolCall, ToolContext, tool_context
from sie_mcp.tools.decision import EXAMPLE_FLOOR
from sie_mcp.tools.examples import read_examples
from sie_mcp.tools.inputs import Model, check_text
from sie_mcp.tools.item_vectors import head
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.result import LimitedResult, Result, RoundedScore, compact
from sie_mcp.tools.similarity import best
from sie_mcp.tools.taxonomy_files import find_taxonomy
from sie_mcp.tools.words import words

EXCERPT_CHARS = 80
MAX_EXAMPLES = 3


class Reason(Result):
    """A category and what speaks for it; `levels` is the confidence in each level of its path."""

    path: str
    confidence: RoundedScore
    cosines: list[RoundedScore]
    shared_words: list[str] | None = None
    levels: list[RoundedScore]


class NearExample(Result):
    """An example that is like the text, and so raises its category."""

    text: str
    path: str
    likeness: RoundedScore


class ExplainResult(LimitedResult):
    """The nearest categories, likeliest first; `cosines` are in the order of `models`."""

    models: list[str]
    head: str | None = None
    results: list[Reason]
    examples: list[NearExample] | None = None


async def explain(
    ctx: ToolCall,
    text: Annotated[str, Field(description="One text, as it was classified.")] = "",
    path: Annotated[
        str, Field(max_length=4_096, description="Or what classify_taxonomy wrote, with `index`.")
    ] = "",
    index: Annotated[int, Field(ge=0, description="The index of the row in it.")] = 0,
    taxonomy: TaxonomyName = "shopify",
    top_k: Annotated[int, Field(ge=1, le=20, description="How many categories.")] = 5,
    examples: Annotated[
        str, Field(max_length=4_096, description="The examples that it was classified with.")
    ] = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, ExplainResult]:
    """Show why a text goes into its category, and what speaks for the nearest others.

    Use it for a text that classify_taxonomy or review_uncertain shows as unsure or wrong.

    Returns for each category its path, confidence, each model's cosine, words shared with the
    text's head, and the confidence in each level of the path: where it drops, the text does not say
    more; and the nearest examples. Limit: one text in a call.
    """
    context = tool_context(ctx)
    if bool(text) == bool(path):
        raise InvalidInput("send one of text, and path with the index of a row")
    text = text or await _text_of(context, path, index)
    check_text(text, "text", context.config.max_item_chars)
    tree = await find_taxonomy(context, taxonomy)
    store = NodeVectorStore(context.client, context.config.cache_dir / "taxonomies")
    choice = Choice(examples=await read_examples(context, examples, tree))
    classifier = await prepare(context.client, store, model, tree, choice, context.progress)
    seen = await classifier.look([text], context.progress)
    if seen.failed:
        raise InvalidInput(f"text cannot be encoded: {seen.failed[0].message}")
    reasons = await anyio.to_thread.run_sync(_reasons, classifier, seen, top_k)
    return compact(
        ExplainResult(
            models=[reader.model for reader in classifier.readers],
            head=head(text) or None,
            results=reasons,
            examples=_near_examples(classifier, seen) or None,
        ),
        context.config.max_result_tokens,
    )


async def _text_of(context: ToolContext, path: str, index: int) -> str:
    """Return the text of a row of a classified file."""
    file = context.folders.to_read(path, ENDINGS, argument="path")
    rows = await anyio.to_thread.run_sync(read_classified, file, context.config.max_file_bytes)
    found = next((row for row in rows if row.index == index), None)
    if found is None or not found.text:
        raise InvalidInput(f"index: {file.name} has no text {index}; it has {len(rows):,} rows")
    return found.text


def _near_examples(classifier: Classifier, seen: Seen) -> list[NearExample]:
    examples, paths = classifier.choice.examples, classifier.taxonomy.paths
    if not examples.texts:
        return []
    alike = np.mean([view.likeness[0] for view in seen.views], axis=0)
    return [
        NearExample(
            text=examples.texts[one][:EXCERPT_CHARS],
            path=SEPARATOR.join(paths[examples.nodes[one]]),
            likeness=float(alike[one]),
        )
        for one in map(int, best(alike, min(MAX_EXAMPLES, len(alike))))
        if alike[one] > EXAMPLE_FLOOR
    ]


def _reasons(classifier: Classifier, seen: Seen, top_k: int) -> list[Reason]:
    tree = classifier.taxonomy
    (read,) = seen.heads
    evidence = classifier.evidence(seen, [0])
    (share,) = evidence.shares(classifier.branches)
    (belief,) = classifier.beliefs(evidence)
    said = set(words(read))
    return [
        Reason(
            path=SEPARATOR.join(path := tree.paths[node]),
            confidence=belief.in_node(node),
            cosines=[float(one[0, node]) for one in evidence.cosines],
            shared_words=sorted(said & set(words(path[-1]))) or None,
            levels=[belief.in_branch(path[:depth]) for depth in range(1, len(path) + 1)],
        )
        for node in map(int, best(share, min(top_k, len(share))))
    ]
