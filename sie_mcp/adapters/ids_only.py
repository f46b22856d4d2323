"""Texts to ids and nothing else: where a request has thousands, what is not read costs the most.

Offsets, words and masks would each be a Python object a token.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Series
from dataclasses import dataclass

import numpy as np
from tokenizers import Encoding, Tokenizer

from sie_mcp.adapters.pair_frame import PairFrame


@dataclass(slots=True)
class TokenIds:
    """One tokenised text.

    Attributes:
        ids: int64 `(num_tokens,)`, special tokens included.
        type_ids: int64 `(num_tokens,)`; None: all zero.
        truncated: Something was cut.
        num_cut: How many tokens that were.
    """

    ids: np.ndarray
    type_ids: np.ndarray | None
    truncated: bool
    num_cut: int = 0


@dataclass(frozen=True, slots=True)
class Around:
    """The special tokens around a single text.

    Attributes:
        before: int64.
        after: int64.
        has_types: Some token of a text has a type other than zero.
    """

    before: np.ndarray
    after: np.ndarray
    has_types: bool


def around(tokenizer: Tokenizer) -> Around:
    """Return what stands before and after a single text."""
    plain = tokenizer.encode("a", add_special_tokens=False)
    whole = tokenizer.post_process(plain, add_special_tokens=True)
    is_special = list(whole.special_tokens_mask)
    first = is_special.index(0) if 0 in is_special else len(is_special)
    ids = np.array(whole.ids, dtype=np.int64)
    return Around(ids[:first], ids[first + len(plain.ids) :], any(whole.type_ids))


def joined_ids(
    encodings: Series[Encoding], before: Series[int], after: Series[int], room: int | None
) -> Iterator[TokenIds]:
    """Put special tokens around texts that have none, each cut to `room` tokens at its end.

    The ids of all are parts of one array.
    """
    flat: list[int] = []
    ends, cuts = [], []
    for encoding in encodings:
        ids = encoding.ids
        num_cut = 0 if room is None else max(len(ids) - room, 0)
        if num_cut:
            del ids[room:]
        flat += before
        flat += ids
        flat += after
        ends.append(len(flat))
        cuts.append(num_cut)
    whole = np.fromiter(flat, np.int64, len(flat))
    for start, end, num_cut in zip([0, *ends], ends, cuts, strict=False):
        yield TokenIds(whole[start:end], None, num_cut > 0, num_cut)


def joined_pairs(
    frame: PairFrame,
    first: list[int],
    seconds: Series[list[int]],
    kept: Series[tuple[int | None, int | None]],
) -> Iterator[TokenIds]:
    """Put one text and each of others together, each cut to as many tokens as are kept of it.

    The ids of all are parts of one array, and so are their types.
    """
    before, between, after = (one.tolist() for one in frame.ids)
    flat: list[int] = []
    ends, cuts, own = [], [], []
    for second, (keep_first, keep_second) in zip(seconds, kept, strict=True):
        one, other = first[:keep_first], second[:keep_second]
        flat += before
        flat += one
        flat += between
        flat += other
        flat += after
        ends.append(len(flat))
        own.append((len(one), len(other)))
        cuts.append(len(first) - len(one) + len(second) - len(other))
    whole = np.fromiter(flat, np.int64, len(flat))
    types = frame.types_of(own)
    for start, end, num_cut in zip([0, *ends], ends, cuts, strict=False):
        own_types = None if types is None else types[start:end]
        yield TokenIds(whole[start:end], own_types, num_cut > 0, num_cut)
