"""Runs of one label over a text, and the entities that they make. Knows no tokens and no model."""

import unicodedata
from dataclasses import dataclass

import numpy as np

from sie_mcp import wire


@dataclass(slots=True)
class Run:
    """An entity being built: neighbouring pieces of one label, and their scores."""

    label: str
    start: int
    end: int
    scores: list[float]


def to_entity(text: str, run: Run) -> wire.Entity:
    """Return the run without the space around it; its score is the mean of its pieces'."""
    start, end = run.start, run.end
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    # An accent that the tokenizer dropped belongs to its letter.
    while start < end < len(text) and unicodedata.combining(text[end]):
        end += 1
    score = float(np.mean(run.scores))
    return wire.Entity(text=text[start:end], label=run.label, score=score, start=start, end=end)
