"""The starter models against their own libraries; skipped where they are not on disk."""

from pathlib import Path

import numpy as np
import torch
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertForMaskedLM, BertForTokenClassification

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.adapters.tensors import open_tensors
from sie_mcp.catalogue.files import load_catalogue
from tests.conftest import Pulled
from tests.parity.padded import padded
from tests.running import CPU, dense, encode, encode_request, extract, extract_request, load, run

TEXTS = [
    "A man is eating food.",
    "coffee",
    "The quick brown fox jumps over the lazy dog, again and again. " * 30,
    "Zürich – naïve café, 北京 and 👩‍👩‍👧!",
    "def add(a, b):\n    return a + b",
]
PERSONAL = [
    "Contact Jane O'Brien-Smith at 12 Main Street, Springfield, IL 62704.",
    "My passport is X1234567 and my name is José Núñez; call +1 (555) 123-4567.",
]


def _cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return (one * other).sum(axis=1) / norms


def test_minilm_equals_sentence_transformers_alone_and_in_any_batch(pulled: Pulled) -> None:
    folder = pulled("all-MiniLM-L6-v2")
    reference = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    expected = reference.encode(TEXTS)
    adapter = load(folder)
    together = dense(adapter, TEXTS)
    alone = np.vstack([dense(adapter, [text]) for text in TEXTS])
    turned = dense(adapter, TEXTS[::-1])[::-1]
    for found in (together, alone, turned):
        assert _cosines(found, expected).min() >= 0.99999
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


def test_potion_equals_model2vec(pulled: Pulled) -> None:
    folder = pulled("potion-base-8M")
    expected = StaticModel.from_pretrained(folder).encode(TEXTS)
    np.testing.assert_allclose(dense(load(folder), TEXTS), expected, atol=1e-5, rtol=0)


def test_splade_equals_the_formula_on_transformers_logits(pulled: Pulled) -> None:
    folder = pulled("splade-tiny")
    model = BertForMaskedLM.from_pretrained(folder, local_files_only=True).eval()
    adapter = load(folder, tasks=("sparse",))
    sequences = adapter.prepare(encode_request(TEXTS, "sparse")).sequences
    inputs, real = padded(model, sequences)
    with torch.no_grad():
        logits = model(**inputs).logits
    weights = torch.log1p(torch.relu(logits)).masked_fill(~real[..., None], 0.0).amax(dim=1)
    for expected, item in zip(weights.numpy(), encode(adapter, TEXTS, "sparse"), strict=True):
        found = np.zeros_like(expected)
        found[item.sparse.indices] = item.sparse.values
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


def _tags(folder: Path, sequences: list[Sequence]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return transformers' tags and probabilities, given the weights that we read."""
    model = BertForTokenClassification(BertConfig.from_pretrained(folder)).eval()
    source = open_tensors(folder)
    missing, unexpected = model.load_state_dict(
        {name: source.get(name) for name in source.names()}, strict=False
    )
    assert set(missing) <= {"bert.embeddings.position_ids"}
    assert not unexpected
    inputs, real = padded(model, sequences)
    with torch.no_grad():
        scores, tags = model(**inputs).logits.softmax(-1).max(-1)
    return [
        (tag[mask].numpy(), score[mask].numpy())
        for tag, score, mask in zip(tags, scores, real, strict=True)
    ]


def test_rampart_equals_transformers_with_the_same_weights(pulled: Pulled) -> None:
    folder = pulled("rampart-pii")
    adapter = load(folder)
    sequences = adapter.prepare(extract_request(PERSONAL)).sequences
    with torch.inference_mode():
        found = unpack(adapter.forward(pack(sequences, CPU)), len(sequences))
    for output, (tags, scores) in zip(found, _tags(folder, sequences), strict=True):
        assert np.array_equal(output["tags"], tags)
        np.testing.assert_allclose(output["scores"], scores, atol=1e-5, rtol=0)


def test_rampart_reads_a_long_text_in_short_windows(pulled: Pulled) -> None:
    """In windows as long as its table it loses names; docs/extraction.md has how many."""
    entry = load_catalogue().find("rampart-pii")
    assert entry is not None and entry.max_length is not None
    adapter = load(pulled("rampart-pii"), tasks=entry.tasks, max_length=entry.max_length)
    request = extract_request(["My name is John Smith and I live there. " * 60])
    longest = max(one.num_tokens for one in adapter.prepare(request).sequences)
    assert longest == adapter.card.max_sequence_length == 96
    (item,) = run(adapter, request).items
    assert len(item.entities) == 120


def test_rampart_finds_names_and_places_with_true_offsets(pulled: Pulled) -> None:
    adapter = load(pulled("rampart-pii"))
    entry = load_catalogue().find("rampart-pii")
    assert entry is not None and adapter.card.labels == list(entry.labels)
    items = extract(adapter, PERSONAL)
    found = {entity.text: entity.label for item in items for entity in item.entities}
    assert found["O'Brien-Smith"] == "SURNAME"
    assert found["Springfield"] == "CITY"
    assert found["X1234567"] == "PASSPORT"
    for text, item in zip(PERSONAL, items, strict=True):
        assert all(text[one.start : one.end] == one.text for one in item.entities)
