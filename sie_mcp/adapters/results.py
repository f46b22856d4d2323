"""What every task needs of an item: its text, its sequence, whether it was cut, its error."""

from dataclasses import dataclass

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import Result, Sequence, SequenceOutput
from sie_mcp.adapters.ids_only import TokenIds
from sie_mcp.adapters.tokenizer import Tokens
from sie_mcp.errors import InputTooLong, InvalidInput, NonFiniteOutput, SieError

ADVICE = (
    "where the server's dtype is float16, SIE_MCP_DTYPE=bfloat16 or float32 holds larger numbers"
)


@dataclass(slots=True)
class Reading:
    """How much of one item the model reads.

    Attributes:
        sequence: Its place among the prepared sequences; None where nothing has to run.
        num_tokens: Special tokens included.
        tokens: What was read where nothing has to run for it.
        error: Why nothing can be read of it.
    """

    sequence: int | None
    num_tokens: int
    truncated: bool
    tokens: Sequence | None = None
    error: InvalidInput | None = None


def text_of(item: wire.Item, index: int) -> str:
    """Return the item's text.

    Raises:
        InvalidInput: the item has none, or spans, which few models read.
    """
    if item.text is None:
        raise InvalidInput(f"items[{index}] has no text; send {{'text': '…'}}")
    if item.spans is not None:
        raise InvalidInput(f"items[{index}] has spans, which only GLiREL models read; leave them")
    return item.text


def has_image(item: wire.Item) -> bool:
    """Whether the item is an image rather than a text."""
    return item.images is not None


def reading_error(
    reading: Reading, outputs: list[Result], *, are_finite: bool = False
) -> wire.ItemError | None:
    """Return why an item has no result: it cannot be read, or its forward failed.

    `are_finite` says that nobody need look: `all_finite` has.
    """
    if reading.error is not None:
        return wire.ItemError(code=reading.error.code, message=str(reading.error))
    if reading.sequence is None or are_finite:
        return None
    return error_of(outputs[reading.sequence])


def all_finite(outputs: list[Result]) -> bool:
    """Whether all have an output without an infinite number: one look where that is so."""
    values: list[np.ndarray] = []
    for one in outputs:
        if isinstance(one, SieError):
            return False
        values += [rows for rows in one.values() if rows.dtype.kind == "f"]
    return not values or bool(np.isfinite(np.concatenate(values, axis=None)).all())


def to_sequence(tokens: Tokens | TokenIds, outputs: frozenset[str]) -> Sequence:
    """Return what runs of a tokenised text or pair."""
    types = tokens.type_ids
    return Sequence(tokens.ids, types if types is not None and types.any() else None, outputs)


def instructed(text: str, instruction: str | None) -> str:
    """Put the caller's instruction in front of a text that goes into a pair or a classifier."""
    return f"{instruction} {text}" if instruction else text


def refuse_truncation(
    what: str, limit: int | None, tokens: Tokens | TokenIds, *, allowed: bool
) -> None:
    """Raise InputTooLong when `what` was cut although the caller forbade it."""
    if not tokens.truncated or allowed:
        return
    count = f"{len(tokens.ids) + tokens.num_cut} tokens" if tokens.num_cut else "more characters"
    raise InputTooLong(
        f"{what} has {count}, over the limit of {limit} tokens; split it or allow truncation"
    )


def limit_length(asked: int | None, native: int | None) -> int | None:
    """Return the length to cut at: the caller's wish within the model's limit.

    Raises:
        InvalidInput: the wish exceeds the limit.
    """
    if asked is not None and native is not None and asked > native:
        raise InvalidInput(f"max_length {asked} is over this model's limit of {native} tokens")
    return native if asked is None else asked


def error_of(output: Result) -> wire.ItemError | None:
    """Return why a sequence has no usable output: its forward failed, or is not finite."""
    error = output if isinstance(output, SieError) else non_finite(output)
    return None if error is None else wire.ItemError(code=error.code, message=str(error))


def non_finite(output: SequenceOutput, advice: str = ADVICE) -> NonFiniteOutput | None:
    """Return the error of a sequence that has infinite numbers, or what are none; None: it is fine.

    It names the first such output, and ends with the advice.
    """
    for name, values in output.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            return NonFiniteOutput(f"the model's {name} output is not finite; {advice}")
    return None
