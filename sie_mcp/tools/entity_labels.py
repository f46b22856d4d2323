"""Which model looks for labels: the default where it knows them, else one that takes any label."""

from collections.abc import Sequence
from dataclasses import dataclass

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import DownloadFailed, InvalidInput, SieError
from sie_mcp.tools.model_cards import AUTO, loaded_card

# The default for labels that the first default does not know.
ANY_LABELS = "extract_labels"


@dataclass(frozen=True, slots=True)
class Search:
    """What is asked of which model; `labels` None: all it knows.

    Attributes:
        left_out: Labels that the model does not know.
        otherwise: What to ask where the model cannot be had.
        reason: Why this is not the first choice.
    """

    model: str
    labels: list[str] | None
    left_out: tuple[str, ...] = ()
    otherwise: "Search | None" = None
    reason: str = ""


async def choose_search(
    client: EngineClient,
    model: str,
    labels: Sequence[str] | None,
    progress: Progress | None = None,
) -> Search:
    """Choose the model for labels; one that is named is loaded, if only then its own are known.

    Raises:
        InvalidInput: a label that the only model to ask does not know, with those it does.
    """
    if not labels:
        return Search(model, None)
    if model != AUTO:
        return Search(
            model, match_labels(labels, await loaded_card(client, model, "extract", progress))
        )
    listing = await client.models()
    names = listing.defaults.get("extract"), listing.defaults.get(ANY_LABELS)
    card = next((one for one in listing.models if one.name == names[0]), None)
    known = _known(labels, card)
    if names[1] is None or len(known) == len(labels):
        return Search(model, match_labels(labels, card))
    assert card is not None
    left_out = tuple(label for label in dict.fromkeys(labels) if label not in known)
    otherwise = Search(card.name, list(dict.fromkeys(known.values())), left_out)
    return Search(names[1], list(dict.fromkeys(labels)), otherwise=otherwise)


def instead(search: Search, error: SieError, card: wire.ModelCard) -> Search:
    """Return what to ask now that the model cannot be had.

    Args:
        search: What could not be asked.
        error: Why.
        card: Of the model that is left.

    Raises:
        DownloadFailed: none of the labels is known without it; says what is, and what to do.
    """
    assert search.otherwise is not None
    reason = f"{search.model}, which finds any label, cannot be had: {error}"
    if not search.otherwise.labels:
        raise DownloadFailed(
            f"{reason}. Without it {card.name} finds only {', '.join(card.labels or [])}"
        ) from error
    other = search.otherwise
    return Search(other.model, other.labels, other.left_out, reason=reason)


def match_labels(labels: Sequence[str], card: wire.ModelCard | None) -> list[str]:
    """Write labels as the model does, whatever their case; some models take any label.

    Raises:
        InvalidInput: a label the model does not know, with those it does.
    """
    known = _known(labels, card)
    for label in labels:
        if label not in known:
            assert card is not None and card.labels is not None
            raise InvalidInput(
                f"{card.name} does not know the label {label!r}; "
                f"it knows {', '.join(card.labels)}; leave labels out for all of them"
            )
    return list(dict.fromkeys(known[label] for label in labels))


def _known(labels: Sequence[str], card: wire.ModelCard | None) -> dict[str, str]:
    """Return the labels that a model knows, and how it writes them."""
    if card is None or card.labels is None:
        return {label: label for label in labels}
    own = {label.casefold(): label for label in card.labels}
    return {label: own[label.casefold()] for label in labels if label.casefold() in own}
