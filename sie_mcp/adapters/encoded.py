"""The answer to an encode request, one entry an item; and a query put before what it is scored by.

Knows which item has which sequence; what vectors are made of is the adapter's.
"""

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Series
from dataclasses import replace
from typing import Any

from sie_mcp import wire
from sie_mcp.adapters.adapter import Prepared, Result, Sequence, SequenceOutput
from sie_mcp.adapters.results import Reading, all_finite, reading_error
from sie_mcp.errors import SieError

# Items, each one's rows and its sequence, None where nothing ran -> the fields of each answer.
Make = Callable[
    [Series[wire.Item], Series[SequenceOutput | None], Series[Sequence | None]],
    Iterable[dict[str, Any]],
]


def encode_response(
    model: str,
    request: wire.EncodeRequest,
    prepared: Prepared,
    outputs: list[Result],
    make: Make,
) -> wire.EncodeResponse:
    """Return the vectors of every item, or why it has none; `prepared.notes` are readings.

    Vectors are made of all items at once.
    """
    readings: list[Reading] = prepared.notes
    are_finite = all_finite(outputs)
    errors = [reading_error(one, outputs, are_finite=are_finite) for one in readings]
    items: list[wire.Item] = []
    rows: list[SequenceOutput | None] = []
    sequences: list[Sequence | None] = []
    for item, reading, error in zip(request.items, readings, errors, strict=True):
        if error is None:
            output, sequence = _of(reading, prepared, outputs)
            items.append(item)
            rows.append(output)
            sequences.append(sequence)
    made = iter(make(items, rows, sequences))
    answers = [
        wire.of_ours(
            wire.EncodedItem,
            {
                "id": item.id,
                "num_tokens": reading.num_tokens,
                "truncated": reading.truncated,
                **({"error": error} if error is not None else next(made)),
            },
        )
        for item, reading, error in zip(request.items, readings, errors, strict=True)
    ]
    usage = wire.Usage(input_tokens=sum([one.num_tokens for one in readings]))
    return wire.EncodeResponse(model=model, items=answers, usage=usage)


def _of(
    reading: Reading, prepared: Prepared, outputs: list[Result]
) -> tuple[SequenceOutput | None, Sequence | None]:
    """Return what ran of an item, and its sequence."""
    if reading.sequence is None:
        return None, reading.tokens
    result = outputs[reading.sequence]
    assert not isinstance(result, SieError)
    return result, prepared.sequences[reading.sequence]


def query_and_items(query: Prepared, items: Prepared) -> Prepared:
    """Return the query's sequence and reading with the items' behind them."""
    shift = len(query.sequences)
    moved = [
        replace(one, sequence=None if one.sequence is None else one.sequence + shift)
        for one in items.notes
    ]
    return Prepared(query.sequences + items.sequences, query.notes + moved)
