"""The answer to an encode request, one entry an item; and a query put before what it is scored by.

Knows which item has which sequence; what vectors are made of is the adapter's.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sie_mcp import wire
from sie_mcp.adapters.adapter import Prepared, Result, Sequence, SequenceOutput
from sie_mcp.adapters.results import all_finite, reading_error
from sie_mcp.errors import SieError

# An item, its rows and its sequence, None where nothing ran -> the fields of its answer.
Make = Callable[[wire.Item, SequenceOutput | None, Sequence | None], dict[str, Any]]


def encode_response(
    model: str,
    request: wire.EncodeRequest,
    prepared: Prepared,
    outputs: list[Result],
    make: Make,
) -> wire.EncodeResponse:
    """Return the vectors of every item, or why it has none; `prepared.notes` are readings."""
    items: list[wire.EncodedItem] = []
    are_finite = all_finite(outputs)
    for item, reading in zip(request.items, prepared.notes, strict=True):
        error = reading_error(reading, outputs, are_finite=are_finite)
        fields: dict[str, Any] = {"error": error}
        if error is None:
            sequence, output = reading.tokens, None
            if reading.sequence is not None:
                result = outputs[reading.sequence]
                assert not isinstance(result, SieError)
                sequence, output = prepared.sequences[reading.sequence], result
            fields = make(item, output, sequence)
        fields |= {
            "id": item.id,
            "num_tokens": reading.num_tokens,
            "truncated": reading.truncated,
        }
        items.append(wire.of_ours(wire.EncodedItem, fields))
    usage = wire.Usage(input_tokens=sum([one.num_tokens for one in prepared.notes]))
    return wire.EncodeResponse(model=model, items=items, usage=usage)


def query_and_items(query: Prepared, items: Prepared) -> Prepared:
    """Return the query's sequence and reading with the items' behind them."""
    shift = len(query.sequences)
    moved = [
        replace(one, sequence=None if one.sequence is None else one.sequence + shift)
        for one in items.notes
    ]
    return Prepared(query.sequences + items.sequences, query.notes + moved)
