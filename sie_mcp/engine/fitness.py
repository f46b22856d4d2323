"""Whether a model can do what a request asks, and which others could. Reads cards only."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sie_mcp import wire
from sie_mcp.catalogue.entries import Role
from sie_mcp.engine.request_checks import all_items, check_blank, primitive_of
from sie_mcp.errors import InvalidInput
from sie_mcp.wire import Request

_NUM_NAMED = 20  # Names in an error.
# Where a default falls short, who asks has no model in mind: enough to choose from.
_NUM_NAMED_OF_MANY = 5
# What stands in a text: there is none of it in a blank one. Any other answer would be made up.
_FOUND = {"entities", "relations", "records"}

Cards = Callable[[], Mapping[str, wire.ModelCard]]


@dataclass(frozen=True, slots=True)
class _Lack:
    """What a model cannot do: said after its name, with what to call those that `can`."""

    says: str
    others: str
    can: Callable[[wire.ModelCard], bool]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says beside its body.

    Attributes:
        predicts: Only a model with labels of its own will do.
        names_none: The model is a default.
    """

    predicts: bool = False
    names_none: bool = False


def check_fit(
    card: wire.ModelCard, request: Request, catalogue: Cards, asked: Asked = Asked()
) -> None:
    """Refuse what is not the model's: a primitive, an output, images, blank texts.

    Args:
        card: The model's.
        request: What is asked.
        catalogue: Describes other models.
        asked: And how.

    Raises:
        InvalidInput: naming models of the catalogue that could, and for a default its setting.
    """
    lack = _lack(card, request, predicts=asked.predicts)
    if lack is not None:
        raise _refusal(card.name, lack, request, catalogue, asked)
    # Others' were looked at before.
    if isinstance(request, wire.ExtractRequest) and not _FOUND.intersection(card.outputs):
        check_blank(request)


def roles_of(request: Request) -> tuple[Role, ...]:
    """Return whose defaults may answer, in order: what extract's cannot find has others."""
    primitive = primitive_of(request)
    if isinstance(request, wire.ExtractRequest):
        params = request.params
        if params.labels or params.options.structure is not None:
            return (primitive, "extract_labels")
    return (primitive,)


def fitting(
    defaults: Iterable[tuple[str, wire.ModelCard | None]],
    request: Request,
    catalogue: Cards,
    asked: Asked,
) -> list[str] | InvalidInput:
    """Return which defaults can do what a request asks that names no model.

    Where none can it is the error, which names models that could, and the setting.

    Args:
        defaults: Names, with what the catalogue says of each, if it does; in order.
        request: What is asked.
        catalogue: Describes other models.
        asked: And how.
    """
    found: list[str] = []
    refusals: list[InvalidInput] = []
    for name, card in defaults:
        lack = None if card is None else _lack(card, request, predicts=asked.predicts)
        if lack is None:
            found.append(name)
        else:
            refusals.append(_refusal(name, lack, request, catalogue, asked))
    if found or refusals:
        return found or refusals[0]
    primitive = primitive_of(request)
    none = _Lack("is not set", "can", lambda one: primitive in one.primitives)
    return _refusal(f"for {primitive}", none, request, catalogue, asked)


def _refusal(
    name: str, lack: _Lack, request: Request, catalogue: Cards, asked: Asked
) -> InvalidInput:
    """Return the error: who named no model has none in mind, and may not know of the setting."""
    # What the catalogue says less of than its files do would else be named itself.
    others = [one.name for one in catalogue().values() if lack.can(one) and one.name != name]
    known = some(others, _NUM_NAMED_OF_MANY if asked.names_none else _NUM_NAMED)
    says = f"{name} {lack.says}; models that {lack.others}: {known or 'none of the catalogue'}"
    if not asked.names_none:
        return InvalidInput(says)
    *_, role = roles_of(request)
    return InvalidInput(
        f"the request names no model, and the default {says}; name one, or set "
        f"SIE_MCP_DEFAULT_MODELS={role}=NAME"
    )


def some(names: Sequence[str], most: int = _NUM_NAMED) -> str:
    """Join the first names; an error need not hold the whole catalogue."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


def _lack(card: wire.ModelCard, request: Request, *, predicts: bool) -> _Lack | None:
    """Return the first thing that a model cannot do of what is asked."""
    primitive = primitive_of(request)
    if primitive not in card.primitives:
        says = f"can {' and '.join(card.primitives)}, not {primitive}"
        return _Lack(says, "can", lambda one: primitive in one.primitives)
    if predicts and not _predicts(card):
        says = f"gives {' and '.join(card.outputs)}, no labels of whole texts"
        return _Lack(says, "do", lambda one: _predicts(one) and primitive in one.primitives)
    if "image" not in card.inputs and any(one.images for one in all_items(request)):
        says = f"reads {card.decisions.get('inputs', 'texts')}, not images"
        return _Lack(says, "do", lambda one: "image" in one.inputs)
    if isinstance(request, wire.EncodeRequest):
        return _lacks_output(card, request)
    return _lacks_find(card, request) if isinstance(request, wire.ExtractRequest) else None


def _lacks_output(card: wire.ModelCard, request: wire.EncodeRequest) -> _Lack | None:
    for wanted in request.params.output_types or ():
        if not _has(card, wanted):
            says = f"has no {wanted} output; it has: {', '.join(card.outputs)}"
            return _Lack(says, "have one", partial(_has, output=wanted))
    return None


def _lacks_find(card: wire.ModelCard, request: wire.ExtractRequest) -> _Lack | None:
    if request.params.options.structure is not None and card.labels:
        return _Lack("finds no structure of the caller's own", "do", _reads_structure)
    if not card.labels or "entities" not in card.outputs:
        return None
    known = {one.casefold() for one in card.labels}
    unknown = [one for one in request.params.labels or () if one.casefold() not in known]
    if not unknown:
        return None
    says = f"does not know {unknown!r}; it finds: {', '.join(card.labels)}"
    return _Lack(says, "take any label", _takes_any_label)


def _has(card: wire.ModelCard, output: str) -> bool:
    """Whether a model gives such vectors; muvera is made of any multivector."""
    made_of = "multivector" if output == "muvera" else output
    return "encode" in card.primitives and (output in card.outputs or made_of in card.outputs)


def _reads_structure(card: wire.ModelCard) -> bool:
    return "records" in card.outputs or "relations" in card.outputs


def _takes_any_label(card: wire.ModelCard) -> bool:
    # A pruner, which scores too, has marks of its own.
    return card.primitives == ["extract"] and "entities" in card.outputs and not card.labels


def _predicts(card: wire.ModelCard) -> bool:
    """Whether a model has a head of its own labels; one label is enough, as a reranker's."""
    own = "classifications" in card.outputs or "score" in card.outputs
    return own and "score" in card.primitives and "encode" not in card.primitives
