"""Which model reads a schema or a relation: the one named, or one that the worker has."""

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.model_cards import AUTO, loaded_card

_READY = ("loaded", "host", "loading", "available")


async def choose_model(
    client: EngineClient, model: str, output: str, progress: Progress
) -> wire.ModelCard:
    """Return a model whose outputs include this one ("records", "relations").

    Without a name that is the worker's first, one that is up before others.

    Raises:
        InvalidInput: none, or the one named gives something else; says what would work.
    """
    if model != AUTO:
        card = await loaded_card(client, model, "extract", progress)
        assert card is not None  # A named one is there, or was not found.
        if output in card.outputs:
            return card
        raise InvalidInput(
            f"{card.name} gives {', '.join(card.outputs) or 'nothing'}, not {output}; "
            f"{_advice(output)}"
        )
    cards = (await client.models()).models
    fitting = [card for card in cards if output in card.outputs and not needs_spans(card)]
    return _first_up(fitting, output)


def needs_spans(card: wire.ModelCard) -> bool:
    """Whether the model finds nothing but relations, between entities that it is given."""
    return card.outputs == ["relations"]


async def choose_finder(client: EngineClient) -> wire.ModelCard:
    """Return a model that finds entities of any labels; see `choose_model`.

    Raises:
        InvalidInput: there is none.
    """
    cards = (await client.models()).models
    return _first_up(
        [card for card in cards if "entities" in card.outputs and card.labels is None], "entities"
    )


def _first_up(cards: list[wire.ModelCard], output: str) -> wire.ModelCard:
    fitting = [card for card in cards if card.state in _READY]
    if not fitting:
        raise InvalidInput(f"no model here gives {output}; {_advice(output)}")
    return min(fitting, key=lambda card: _READY.index(card.state))


def _advice(output: str) -> str:
    names = "fastino/gliner2-base-v1 or another GLiNER2 model"
    if output == "relations":
        names = "fastino/gliner2-base-v1, or another GLiNER2 or GLiNER-relex model"
    return f"name {names} as model, by hub id or folder"
