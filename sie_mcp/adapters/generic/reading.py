"""Items of a request to images, one that cannot be read failing alone."""

from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from sie_mcp import wire
from sie_mcp.adapters.adapter import Prepared, Result, Sequence
from sie_mcp.adapters.generic.inputs import Seen
from sie_mcp.adapters.pictures import open_picture
from sie_mcp.adapters.results import error_of
from sie_mcp.errors import InvalidImage, InvalidInput, SieError


@dataclass(frozen=True, slots=True)
class Reading:
    """One item: its place among the sequences, or why it has none."""

    place: int | None
    seen: Seen | None = None
    error: InvalidImage | None = None


def read_items(
    request: wire.ExtractRequest, name: str, see: Callable[[Image.Image], Seen], num_more: int
) -> Prepared:
    """Open every item's image, and make of it what runs.

    Args:
        request: Its items are images.
        name: Of the model, for errors.
        see: Makes tensors of a picture.
        num_more: Tokens beside those of an image.

    Raises:
        InvalidInput: an item is a text.
    """
    sequences: list[Sequence] = []
    readings = []
    for index, item in enumerate(request.items):
        if item.images is None:
            raise InvalidInput(f"items[{index}]: {name} reads images, not texts")
        try:
            seen = see(open_picture(item.images[0].data))
        except InvalidImage as error:
            readings.append(Reading(None, error=error))
            continue
        readings.append(Reading(len(sequences), seen))
        sequences.append(seen.sequence(num_more))
    return Prepared(sequences, readings)


def answer(
    request: wire.ExtractRequest,
    name: str,
    prepared: Prepared,
    outputs: list[Result],
    fill: Callable[[wire.ExtractedItem, Result, Seen], None],
) -> wire.ExtractResponse:
    """Return the response; `fill` adds what was found to an item that did not fail."""
    items = []
    for item, reading in zip(request.items, prepared.notes, strict=True):
        found = wire.ExtractedItem(id=item.id)
        if reading.error is not None:
            found.error = wire.ItemError(code=reading.error.code, message=str(reading.error))
        else:
            output = outputs[reading.place]
            found.num_tokens = prepared.sequences[reading.place].num_tokens
            found.error = error_of(output)
            if found.error is None and not isinstance(output, SieError):
                fill(found, output, reading.seen)
        items.append(found)
    usage = wire.Usage(input_tokens=prepared.num_tokens)
    return wire.ExtractResponse(model=name, items=items, usage=usage)
