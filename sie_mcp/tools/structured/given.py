"""Relations by a model that is told where the entities are: another model finds them first."""

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.structured.models import choose_finder
from sie_mcp.wire_structure import Structure


async def link_found(
    client: EngineClient,
    model: str,
    items: list[wire.Item],
    wanted: Structure,
    *,
    threshold: float | None,
    progress: Progress,
) -> wire.ExtractResponse:
    """Find the entities that are wanted, then the relations between them.

    Raises:
        InvalidInput: no entities are named, or no model finds them.
    """
    if not wanted.entities:
        raise InvalidInput(f"{model} links entities that you name: add entities, e.g. ['person']")
    finder = await choose_finder(client)
    labels = wire.ExtractParams(labels=list(wanted.entities))
    found = await client.extract(finder.name, items, labels, progress=progress)
    given = [
        item.model_copy(update={"spans": _spans(own)})
        for item, own in zip(items, found.items, strict=True)
    ]
    structure = Structure(relations=wanted.relations)
    options = wire.ExtractOptions(threshold=threshold, structure=structure)
    params = wire.ExtractParams(options=options)
    answer = await client.extract(model, given, params, progress=progress)
    for one, own in zip(answer.items, found.items, strict=True):
        one.error = own.error or one.error
    return answer


def _spans(found: wire.ExtractedItem) -> list[wire.Span]:
    return [wire.Span(start=one.start, end=one.end) for one in found.entities]
