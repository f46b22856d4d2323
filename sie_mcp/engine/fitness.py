"""Whether a model can do what a request asks, and which others could. Reads cards only."""

from collections.abc import Callable, Mapping, Sequence

from sie_mcp import wire
from sie_mcp.engine.request_checks import all_items, check_blank, primitive_of
from sie_mcp.errors import InvalidInput
from sie_mcp.wire import Request

_NUM_NAMED = 20  # Names in an error.
# What stands in a text: there is none of it in a blank one. Any other answer would be made up.
_FOUND = {"entities", "relations", "records"}


def check_fit(
    card: wire.ModelCard, request: Request, catalogue: Callable[[], Mapping[str, wire.ModelCard]]
) -> None:
    """Refuse a primitive that is not the model's, and images and blank texts it does not read.

    Raises:
        InvalidInput: naming models of the catalogue that could.
    """
    primitive = primitive_of(request)
    if primitive not in card.primitives:
        others = [one.name for one in catalogue().values() if primitive in one.primitives]
        can = " and ".join(card.primitives)
        raise InvalidInput(
            f"{card.name} can {can}, not {primitive}; models that can: {some(others)}"
        )
    if not _FOUND.intersection(card.outputs):
        check_blank(request)
    if "image" in card.inputs or not any(one.images for one in all_items(request)):
        return
    others = [one.name for one in catalogue().values() if "image" in one.inputs]
    reason = card.decisions.get("inputs", "texts")
    raise InvalidInput(f"{card.name} reads {reason}, not images; models that do: {some(others)}")


def some(names: Sequence[str]) -> str:
    """Join the first names; an error need not hold the whole catalogue."""
    left = len(names) - _NUM_NAMED
    return ", ".join(names[:_NUM_NAMED]) + (f" and {left} more" if left > 0 else "")
