"""How to choose a category, and what was chosen: data only."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sie_mcp import wire
from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.decision import PRODUCTS, Curve
from sie_mcp.tools.result import Result, RoundedScore

MAX_EXAMPLES = 2_000


class Category(Result):
    """A category and how near it is: a mean of cosines, so at most 1."""

    category_id: str | None = None
    path: str
    score: RoundedScore


def category_of(taxonomy: Taxonomy, node: int, score: float) -> Category:
    """Return a node as a category."""
    return Category(
        category_id=taxonomy.ids[node] if taxonomy.ids else None,
        path=SEPARATOR.join(taxonomy.paths[node]),
        score=score,
    )


@dataclass(frozen=True, slots=True)
class Classified:
    """One text's categories, likeliest first, under its place in the list of texts.

    `confidence`: the estimated probability that the first is right. `at_parent`: the first is above
    the likeliest, which was not sure enough. `image_error`: why its picture did not count.
    """

    place: int
    categories: list[Category]
    confidence: float
    is_truncated: bool
    at_parent: bool = False
    image_error: str | None = None


@dataclass(frozen=True, slots=True)
class Classification:
    """All texts that could be classified, in order, and those that could not."""

    model: str
    companion: str | None
    texts: list[Classified]
    failed: dict[int, wire.ItemError]


@dataclass(frozen=True, slots=True)
class Examples:
    """Labelled texts: the node of each is a place in the taxonomy."""

    texts: Sequence[str] = ()
    nodes: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """How to choose: how many to list, and from which confidence on to go down to a node.

    `curve` reads what the models think as confidence; `Classifier.calibrated` fits it to texts.
    `reranker`: a model that orders the likeliest once more; "" for none.
    """

    top_k: int = 3
    min_confidence: float = 0.0
    examples: Examples = field(default_factory=Examples)
    curve: Curve = PRODUCTS
    reranker: str = ""


def with_examples_of(taxonomy: Taxonomy, choice: Choice) -> Choice:
    """Add the examples that a taxonomy has itself; of a text in both the caller's counts.

    Raises:
        InvalidInput: too many.
    """
    own = {text: node for node, notes in enumerate(taxonomy.notes) for text in notes.examples}
    if not own:
        return choice
    given = choice.examples
    every = own | dict(zip(given.texts, given.nodes, strict=True))
    if len(every) > MAX_EXAMPLES:
        raise InvalidInput(
            f"{taxonomy.name} has {len(own):,} examples, with yours {len(every):,}; the limit is "
            f"{MAX_EXAMPLES:,}; keep a few of each category"
        )
    return replace(choice, examples=Examples(list(every), list(every.values())))
