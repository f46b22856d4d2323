"""How well the personal-data model finds persons in news and encyclopaedia sentences: wikigold.

A word counts as a person's where the model calls it a given name or a surname, or where it stands
between two such words with nothing but space and full stops: F1 over words.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evals import datasets
from sie_mcp import wire
from sie_mcp.client import EngineClient

MODEL, LABELS = "rampart-pii", ["GIVEN_NAME", "SURNAME"]


async def persons_f1(client: EngineClient) -> float:
    """Return F1 over the words of all sentences."""
    rows = datasets.read_jsonl("wikigold.jsonl")
    items = [wire.Item(text=" ".join(row["tokens"])) for row in rows]
    answer = await client.extract(MODEL, items, wire.ExtractParams(labels=LABELS))
    right = wrong = missed = 0
    for row, item in zip(rows, answer.items, strict=True):
        found, gold = _found(row["tokens"], item.entities), _gold(row)
        right += len(found & gold)
        wrong += len(found - gold)
        missed += len(gold - found)
    return 2 * right / (2 * right + wrong + missed)


def _gold(row: Mapping[str, Any]) -> set[int]:
    return {
        place
        for one in row["entities"]
        if one["type"] in ("PER", "PERSON", "person")
        for place in range(one["start"], one["end"] + 1)
    }


def _found(words: Sequence[str], entities: Sequence[wire.Entity]) -> set[int]:
    """Return the words of names, neighbours joined."""
    text = " ".join(words)
    spans: list[tuple[int, int]] = []
    for one in entities:
        if spans and not text[spans[-1][1] : one.start].strip(" ."):
            spans[-1] = (spans[-1][0], one.end)
        else:
            spans.append((one.start, one.end))
    return {
        place
        for place, (start, end) in enumerate(_places(words))
        if any(start < last and first < end for first, last in spans)
    }


def _places(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    ends = itertools.accumulate(len(word) + 1 for word in words)
    for word, end in zip(words, ends, strict=True):
        yield end - 1 - len(word), end - 1
