"""Labels that a caller names: found among those of a head, whatever their case; and sorted."""

from collections.abc import Iterable, Sequence

from sie_mcp import wire
from sie_mcp.errors import InvalidInput


def place_of(label: str, known: Sequence[str], name: str) -> int:
    """Return where a label stands in the head of the model called `name`.

    Raises:
        InvalidInput: not one of the known labels, which it lists.
    """
    if label in known:
        return known.index(label)
    folded = [one.casefold() for one in known]
    if folded.count(label.casefold()) != 1:
        raise InvalidInput(
            f"{name} does not know the label {label!r}; it knows: {', '.join(known)}"
        )
    return folded.index(label.casefold())


def best_first(
    scores: Iterable[tuple[str, float]], threshold: float | None, top_k: int | None
) -> list[wire.Classification]:
    """Order labels by score, ties as they came; drop what is below the threshold or past top_k."""
    kept = [
        wire.Classification(label=label, score=score)
        for label, score in scores
        if threshold is None or score >= threshold
    ]
    return sorted(kept, key=lambda one: -one.score)[:top_k]
