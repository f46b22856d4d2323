"""Every extractor with a scorer that is made up: names are known by their words, nothing is run.

What stands between a text and its findings is the adapter's own: words, windows, prompts, merging.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sie_mcp import wire
from tests.parity.gliner2_models import save
from tests.parity.gliners import BY_NAME, save_gliner
from tests.parity.relexes import BY_NAME as RELEXES
from tests.parity.relexes import save_relex
from tests.parity.run import load as load_spread
from tests.running import load

# A name's first word and its second. Halves are names too: what a window cuts is tempting.
PAIRS = {"Ada": "Lovelace", "北": "京"}
NAMES = {"Ann", "Bob", "Carl", "Dora", "Eve", "É", *PAIRS, *PAIRS.values()}
FAMILIES = ("span", "token", "bi-span", "bi-token", "relex-span", "relex-token", "gliner2")
_GLINERS = {
    "span": "deberta",
    "token": "deberta-token",
    "bi-span": "bi-deberta-bert",
    "bi-token": "bi-bert-token",
}
LOGIT = 2.2  # 0.9 as a probability.


def make(family: str, folder: Path) -> Any:
    """Return an adapter of a tiny checkpoint."""
    if family == "gliner2":
        save(folder, "bert count_lstm_v2")
        return load_spread(folder)
    if family.startswith("relex"):
        save_relex(folder, RELEXES[family.removeprefix("relex-") + "-none"])
    else:
        save_gliner(folder, BY_NAME[_GLINERS[family]])
    return load(folder)


def names_of(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the words of each name, the end exclusive."""
    place = 0
    while place < len(words):
        is_pair = words[place + 1 : place + 2] == [PAIRS.get(words[place])]
        if is_pair or words[place] in NAMES:
            yield place, place + 1 + is_pair
        place += 1 + is_pair


def found(
    adapter: Any, request: wire.ExtractRequest, label: str, logit: float = LOGIT
) -> list[wire.ExtractedItem]:
    """Return what an adapter makes of a text whose names score so for one label."""
    prepared = adapter.prepare(request)
    sequences = iter(prepared.sequences)
    outputs = []
    for reading in prepared.notes.readings:
        for window in reading.windows:
            own = reading.words[window.first : window.last]
            names = list(names_of([reading.text[start:end] for start, end in own]))
            for labels in _labels_of(prepared.notes):
                place = labels.index(label) if label in labels else None
                output = _scores(adapter, next(sequences), len(labels), names, place, logit)
                outputs.append(output)
    assert next(sequences, None) is None
    items: list[wire.ExtractedItem] = adapter.finish(request, prepared, outputs).items
    return items


def _labels_of(notes: Any) -> list[list[str]]:
    """Return the labels of each prompt."""
    if not hasattr(notes, "prompts"):
        return [list(notes.schema.structure.entities)]
    return [[notes.wanted.labels[one] for one in prompt.places] for prompt in notes.prompts]


def _scores(
    adapter: Any,
    sequence: Any,
    num_labels: int,
    names: list[tuple[int, int]],
    label: int | None,
    logit: float,
) -> dict[str, np.ndarray]:
    layout = sequence.extra
    if not hasattr(layout, "num_words"):
        return _of_gliner2(adapter, sequence, num_labels, names, label, logit)
    if adapter._rule.is_token_level:
        logits = np.full((layout.num_words, num_labels, 3), -9.0, np.float32)
        for first, last in names if label is not None else ():
            logits[first, label, 0] = logits[last - 1, label, 1] = logit
            logits[first:last, label, 2] = logit
    else:
        shape = (layout.num_words, adapter._rule.max_width, num_labels)
        logits = np.full(shape, -9.0, np.float32)
        for first, last in names if label is not None else ():
            logits[first, last - first - 1, label] = logit
    pairs = [(*one, *other) for one, other in itertools.pairwise(names)]
    places = np.array(pairs, dtype=np.int64).reshape(-1, 4) - [0, 1, 0, 1]
    return {"logits": logits, "pairs": places, "links": np.full((len(pairs), 1), logit, np.float32)}


def _of_gliner2(
    adapter: Any,
    sequence: Any,
    num_labels: int,
    names: list[tuple[int, int]],
    label: int | None,
    logit: float,
) -> dict[str, np.ndarray]:
    num_words = len(sequence.extra.words)
    logits = np.full((num_labels, num_words, adapter._settings.max_width), -9.0, np.float32)
    for first, last in names:
        logits[label, first, last - first - 1] = logit
    return {
        "labels": np.zeros(0, np.float32),
        "counts": np.ones(1, np.int64),
        "spans": logits.reshape(-1),
    }
