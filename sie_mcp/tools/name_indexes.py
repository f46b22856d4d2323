"""What is made of a taxonomy's names before any text is read; kept for the next call."""

from functools import lru_cache

from sie_mcp.catalogue.taxonomy import Taxonomy
from sie_mcp.tools.decision import Branches
from sie_mcp.tools.words import WordIndex

# Of a larger taxonomy nothing is kept: 10,595 nodes take 4 MB.
MAX_KEPT_NODES = 20_000


def indexes(taxonomy: Taxonomy) -> tuple[Branches, WordIndex]:
    """Return its tree and the words of its names, those of the last taxonomies as they were."""
    return _kept(taxonomy) if len(taxonomy.paths) <= MAX_KEPT_NODES else _made(taxonomy)


@lru_cache(maxsize=2)
def _kept(taxonomy: Taxonomy) -> tuple[Branches, WordIndex]:
    """Make them once: of a call with one text they were most of the time."""
    return _made(taxonomy)


def _made(taxonomy: Taxonomy) -> tuple[Branches, WordIndex]:
    names = [path[-1] for path in taxonomy.paths]
    for node, notes in enumerate(taxonomy.notes):
        names[node] = " ".join((names[node], *notes.synonyms))
    return Branches(taxonomy.paths), WordIndex(names)
