"""Vectors of whole texts, long ones too, kept by content: what was embedded once is read again.

A text longer than a passage is cut into passages, and its vector is their mean, so that two texts
with the same beginning are not taken for the same.
"""

import hashlib
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import numpy as np

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.config import Config
from sie_mcp.errors import ModelLoading
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.failures import raise_if_all_failed
from sie_mcp.tools.index.chunks import MAX_CHARS, Part, cut
from sie_mcp.tools.index.encoder import Encoder
from sie_mcp.tools.index.places import store_place
from sie_mcp.tools.long_work import is_late
from sie_mcp.tools.optional import load
from sie_mcp.tools.vectors import Vectors, embed_texts, mean_vector

if TYPE_CHECKING:
    from sie_mcp.tools.index.vector_store import VectorStore

# Texts that are embedded and kept together, so that a call cut short loses little.
PART_TEXTS = 512
# Passages of one text that count, 32,000 characters; what follows is not read.
MAX_PASSAGES = 32
_RULES = "texts.1"
# A vector, and whether the model read only the text's beginning.
Embedded = tuple[np.ndarray, bool]


async def whole_text_vectors(
    context: ToolContext, encoder: Encoder, texts: Sequence[str], progress: Progress
) -> Vectors:
    """Return a vector of length 1 for each text, from the store where it is there.

    Texts of remote callers are not kept on this machine's disk: without files and without an
    index_dir nothing is stored.

    Raises:
        InvalidInput: LanceDB is not installed.
        ModelLoading: it is not done before the call's deadline; the next call goes on.
        SettingError: the store cannot be used.
        SieError: no text could be encoded.
    """
    passages = [_passages(text) for text in texts]
    unique = list(dict.fromkeys(passage for some, _ in passages for passage in some))
    failed: dict[str, wire.ItemError] = {}
    if context.files_allowed or context.config.index_dir:
        embedded = await _kept(context, encoder, unique, progress, failed)
    else:
        embedded = await _embed(context.client, encoder.model, unique, failed, progress)
    return _joined(encoder.model, passages, embedded, failed)


async def _kept(
    context: ToolContext,
    encoder: Encoder,
    texts: Sequence[str],
    progress: Progress,
    failed: dict[str, wire.ItemError],
) -> dict[str, Embedded]:
    """Look vectors up; embed what is not there, in parts, and keep it."""
    store = await anyio.to_thread.run_sync(_open, context.config, encoder)
    digests = {text: _digest(text) for text in texts}
    there = await anyio.to_thread.run_sync(store.get, list(digests.values()))
    embedded = {text: there[digest] for text, digest in digests.items() if digest in there}
    new = [text for text in texts if text not in embedded]
    longest_s = 0.0
    for start in range(0, len(new), PART_TEXTS):
        if longest_s and is_late(longest_s):
            raise ModelLoading(
                f"the texts are being embedded, once: {start:,} of {len(new):,} are done, and the "
                "next call goes on from there"
            )
        await progress(start, len(new), "embedding texts, once")
        started_s = anyio.current_time()
        made = await _embed(context.client, encoder.model, new[start : start + PART_TEXTS], failed)
        await anyio.to_thread.run_sync(
            store.put, {digests[text]: value for text, value in made.items()}
        )
        embedded |= made
        longest_s = max(longest_s, anyio.current_time() - started_s)
    if new:
        await anyio.to_thread.run_sync(store.tidy)
    return embedded


async def _embed(
    client: EngineClient,
    model: str,
    texts: Sequence[str],
    failed: dict[str, wire.ItemError],
    progress: Progress | None = None,
) -> dict[str, Embedded]:
    made = await embed_texts(client, model, texts, may_be_none=True, progress=progress)
    failed.update({texts[place]: error for place, error in made.failed.items()})
    cut_off = set(made.truncated)
    return {
        texts[place]: (vector, place in cut_off)
        for place, vector in zip(made.kept, made.values, strict=True)
    }


def _open(config: Config, encoder: Encoder) -> "VectorStore":
    place = store_place(config, encoder.model, _RULES, str(len(encoder.probe)))
    store: VectorStore = load("sie_mcp.tools.index.vector_store").VectorStore(
        place.uri, encoder.probe
    )
    return store


def _passages(text: str) -> tuple[list[str], bool]:
    """Cut a long text, and say whether there is more than counts."""
    if len(text) <= MAX_CHARS:
        return [text], False
    lines = (Part(number, line) for number, line in enumerate(text.split("\n"), 1))
    found = [chunk.text for chunk in itertools.islice(cut(lines), MAX_PASSAGES + 1)]
    return found[:MAX_PASSAGES], len(found) > MAX_PASSAGES


def _joined(
    model: str,
    passages: Sequence[tuple[list[str], bool]],
    embedded: dict[str, Embedded],
    failed: dict[str, wire.ItemError],
) -> Vectors:
    """Put the vectors of passages together to those of texts."""
    errors: dict[int, wire.ItemError] = {}
    truncated: list[int] = []
    values: list[np.ndarray] = []
    for place, (some, is_more) in enumerate(passages):
        error = next((failed[passage] for passage in some if passage in failed), None)
        if error is not None:
            errors[place] = error
            continue
        parts = [embedded[passage] for passage in some]
        values.append(mean_vector([vector for vector, _ in parts], [len(one) for one in some]))
        if is_more or any(is_cut for _, is_cut in parts):
            truncated.append(place)
    raise_if_all_failed(errors, len(passages))
    kept = [place for place in range(len(passages)) if place not in errors]
    return Vectors(model, np.stack(values), kept, truncated, errors)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
