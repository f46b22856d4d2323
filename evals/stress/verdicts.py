"""What each answer under chaos must be, and what was seen: right, its own fault, wrong or lost.

Knows models and answers; knows nothing of workers or of how they are called.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from evals.stress.faulty_worker import FLAKY, FLOOD, POISON
from evals.stress.models import Model
from evals.stress.traffic import request, text
from sie_mcp import wire
from sie_mcp.errors import SieError, error_classes
from tests.parity.run import load, run

NUM_TEXTS = 60
QUERY = "w1 w2 w3"
# What an item with a fault of its own may say.
FAULTS = {POISON: {"INFERENCE_ERROR"}, FLOOD: {"RESOURCE_EXHAUSTED"}}
# While it still fails; later it is served as any other.
FLAKY_CODES = {"MODEL_LOAD_FAILED"}


@dataclass(slots=True)
class Record:
    """What was seen so far; `in_hand` is when each caller's call was sent."""

    answered: int = 0
    in_hand: dict[int, float] = field(default_factory=dict)
    items: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    untyped: list[str] = field(default_factory=list)
    failed_loads: int = 0
    flaky_served: int = 0
    killed: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Truth:
    """What each model says of each text, alone: one row of numbers a text."""

    texts: list[str]
    rows: dict[str, np.ndarray]
    tolerance: float

    def is_right(self, model: Model, text_: str, row: np.ndarray) -> bool:
        """Whether this is what the model says of the text."""
        wanted = self.rows[model.name][self.texts.index(text_)]
        return wanted.shape == row.shape and bool(np.abs(wanted - row).max() <= self.tolerance)


def truth_of(models: list[Model], *, seed: int, tolerance: float) -> Truth:
    """Run each model on each text, here and alone."""
    rng = random.Random(seed)
    texts = [text(rng, (2, 40)) for _ in range(NUM_TEXTS)]
    rows = {}
    for model in models:
        answer, _ = run(load(model.folder), request(model, texts, query=QUERY))
        rows[model.name] = np.stack([row for _, row, _ in _results(answer)])
    return Truth(texts, rows, tolerance)


def note_error(model: Model, error: SieError, record: Record) -> None:
    """Note a call that failed as a whole: right only for a model that does not load yet."""
    if error.code not in error_classes() or type(error) is SieError:
        record.untyped.append(f"{model.name}: {error!r}")
    if model.name == FLAKY and error.code in FLAKY_CODES:
        record.failed_loads += 1
    else:
        record.lost.append(f"{model.name}: {error.code} {error}")


def check(
    model: Model,
    texts: list[str],
    places: dict[int, str],
    answer: wire.Response,
    truth: Truth,
    record: Record,
) -> None:
    """Hold every item against what it must be: the right numbers, or its own fault."""
    record.flaky_served += model.name == FLAKY
    for place, row, code in _results(answer):
        fault = places.get(place)
        record.items[code or "right"] += 1
        if fault is not None:
            if code not in FAULTS[fault]:
                record.wrong.append(f"{model.name}[{place}] with {fault}: {code}")
        elif code is not None:
            record.lost.append(f"{model.name}[{place}]: {code}")
        elif not truth.is_right(model, texts[place], row):
            record.wrong.append(f"{model.name}[{place}]: other numbers")


def _results(answer: wire.Response) -> list[tuple[int, np.ndarray, str | None]]:
    """Return each item's place, its numbers, and its error's code."""
    if isinstance(answer, wire.ScoreResponse):
        scores = sorted(answer.scores, key=lambda one: one.index)
        found = [(one, [] if one.score is None else [one.score]) for one in scores]
    elif isinstance(answer, wire.EncodeResponse):
        found = [(one, [] if one.dense is None else one.dense.values) for one in answer.items]
    else:
        # Highest first in the answer; by name they can be compared.
        found = [
            (one, [c.score for c in sorted(one.classifications, key=lambda c: c.label)])
            for one in answer.items
        ]
    return [
        (place, np.asarray(row, dtype=np.float64), one.error.code if one.error else None)
        for place, (one, row) in enumerate(found)
    ]
