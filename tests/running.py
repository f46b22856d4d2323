"""Runs an adapter as the engine does, in this thread: prepare, pack, forward, unpack, finish."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter, Result
from sie_mcp.adapters.create import load_adapter, read_recipe
from sie_mcp.adapters.packing import alike, pack, unpack
from sie_mcp.catalogue.entries import Entry, Source, Task

CPU = torch.device("cpu")


def load(folder: Path, *, tasks: tuple[Task, ...] = (), **entry: Any) -> Adapter:
    """Read a folder and load it; `tasks` and the rest are what a catalogue entry would say."""
    known = None
    if tasks or entry:
        source = Source(kind="path", path=folder)
        known = Entry(name="tiny", tasks=tasks, sources=(source,), **entry)
    recipe = read_recipe("tiny", folder, known)
    return load_adapter(recipe, device=CPU, dtype=torch.float32)


def run(adapter: Adapter, request: wire.Request, *, order: Sequence[int] | None = None) -> Any:
    """Answer a request in one batch; `order` is how its sequences are packed."""
    prepared = adapter.prepare(request)
    places = list(range(len(prepared.sequences))) if order is None else list(order)
    results: list[Result] = [{} for _ in places]
    ordered = [prepared.sequences[place] for place in places]
    for group in alike(ordered):
        with torch.inference_mode():
            batch = pack([ordered[one] for one in group], CPU)
            outputs = unpack(adapter.forward(batch), len(group))
        for one, output in zip(group, outputs, strict=True):
            results[places[one]] = output
    return adapter.finish(request, prepared, results)


def encode(
    adapter: Adapter, texts: Sequence[str], *outputs: str, **options: Any
) -> list[wire.EncodedItem]:
    """Encode texts in one batch; `options` are those of EncodeOptions."""
    items: list[wire.EncodedItem] = run(adapter, encode_request(texts, *outputs, **options)).items
    return items


def encode_request(texts: Sequence[str], *outputs: str, **options: Any) -> wire.EncodeRequest:
    """Build an encode request."""
    return wire.EncodeRequest.model_validate(
        {
            "items": [{"text": text} for text in texts],
            "params": {"output_types": list(outputs) or None, "options": options},
        }
    )


def dense(adapter: Adapter, texts: Sequence[str], **options: Any) -> np.ndarray:
    """Return the dense vectors of texts, `(num_texts, dims)`."""
    return np.stack([item.dense.values for item in encode(adapter, texts, "dense", **options)])


def score_request(query: str, texts: Sequence[str], **fields: Any) -> wire.ScoreRequest:
    """Build a score request."""
    items = [{"text": text} for text in texts]
    return wire.ScoreRequest.model_validate({"query": {"text": query}, "items": items, **fields})


def scores(adapter: Adapter, query: str, texts: Sequence[str], **fields: Any) -> list[float]:
    """Score texts and return the scores in the order of the texts."""
    found = run(adapter, score_request(query, texts, **fields)).scores
    return [one.score for one in sorted(found, key=lambda one: one.index)]


def extract_request(
    texts: Sequence[str], labels: Sequence[str] | None = None, **options: Any
) -> wire.ExtractRequest:
    """Build an extract request."""
    items = [{"text": text} for text in texts]
    params = {"labels": labels, "options": options}
    return wire.ExtractRequest.model_validate({"items": items, "params": params})


def extract(
    adapter: Adapter, texts: Sequence[str], labels: Sequence[str] | None = None, **options: Any
) -> list[wire.ExtractedItem]:
    """Extract from texts in one batch."""
    request = extract_request(texts, labels, **options)
    items: list[wire.ExtractedItem] = run(adapter, request).items
    return items
