"""The tool `explain`: why a text is put into its category, node by node."""

from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.catalogue.taxonomy import SEPARATOR
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.belief import Belief, Evidence
from sie_mcp.tools.classification import Choice, Classifier, Seen, prepare
from sie_mcp.tools.classify_taxonomy import TaxonomyName
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.inputs import Model, check_text
from sie_mcp.tools.item_vectors import head
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.result import LimitedResult, Result, RoundedScore, compact
from sie_mcp.tools.similarity import best
from sie_mcp.tools.taxonomy_files import find_taxonomy
from sie_mcp.tools.words import words


class Reason(Result):
    """A category and what speaks for it; `levels` is the confidence in each level of its path."""

    path: str
    confidence: RoundedScore
    cosines: list[RoundedScore]
    shared_words: list[str] | None = None
    levels: list[RoundedScore]


class ExplainResult(LimitedResult):
    """The nearest categories, likeliest first; `cosines` are in the order of `models`."""

    models: list[str]
    head: str | None = None
    results: list[Reason]


async def explain(
    ctx: ToolCall,
    text: Annotated[str, Field(description="One text, as it was classified.")],
    taxonomy: TaxonomyName = "shopify",
    top_k: Annotated[int, Field(ge=1, le=20, description="How many categories.")] = 5,
    model: Model = "auto",
) -> Annotated[CallToolResult, ExplainResult]:
    """Show why a text goes into its category, and what speaks for the nearest others.

    Use it for a text that classify_taxonomy or review_uncertain shows as unsure or wrong. Examples
    are not counted here.

    Returns for each category its path, confidence, each model's cosine, words shared with the
    text's head, and the confidence in each level of the path: where it drops, the text does not say
    more. Limit: one text in a call.
    """
    context = tool_context(ctx)
    check_text(text, "text", context.config.max_item_chars)
    tree = await find_taxonomy(context, taxonomy)
    store = NodeVectorStore(context.client, context.config.cache_dir / "taxonomies")
    classifier = await prepare(context.client, store, model, tree, Choice(), context.progress)
    seen = await classifier.look([text], context.progress)
    if seen.failed:
        raise InvalidInput(f"text cannot be encoded: {seen.failed[0].message}")
    reasons = await anyio.to_thread.run_sync(_reasons, classifier, seen, top_k)
    return compact(
        ExplainResult(
            models=[reader.model for reader in classifier.readers],
            head=head(text) or None,
            results=reasons,
        ),
        context.config.max_result_tokens,
    )


def _reasons(classifier: Classifier, seen: Seen, top_k: int) -> list[Reason]:
    tree = classifier.taxonomy
    cosines = [view.texts @ view.nodes.T for view in seen.views]
    (read,) = seen.heads
    evidence = Evidence(cosines, classifier.index.similarities([read]), seen.views[0].likeness)
    (share,) = evidence.shares(classifier.branches)
    belief = Belief(classifier.branches, [one[0] for one in evidence.alone(classifier.branches)])
    said = set(words(read))
    return [
        Reason(
            path=SEPARATOR.join(path := tree.paths[node]),
            confidence=belief.in_node(node),
            cosines=[float(one[0, node]) for one in cosines],
            shared_words=sorted(said & set(words(path[-1]))) or None,
            levels=[belief.in_branch(path[:depth]) for depth in range(1, len(path) + 1)],
        )
        for node in map(int, best(share, min(top_k, len(share))))
    ]
