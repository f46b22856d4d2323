"""`GET /v1/models` for clients of SIE and of OpenAI at once."""

from sie_mcp import wire


def for_openai(listing: wire.ModelList) -> wire.ModelList:
    """Return the listing with OpenAI's beside ours."""
    data = [wire.OpenAIModel(id=card.name) for card in listing.models]
    return listing.model_copy(update={"object": "list", "data": data})


def card_for_openai(card: wire.ModelCard) -> wire.ModelCard:
    """Return a card with OpenAI's fields beside ours."""
    return card.model_copy(update=wire.OpenAIModel(id=card.name).model_dump())
