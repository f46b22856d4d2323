"""Our vectors beside those of a library that reads the same folder, in float32 on the CPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model2vec import StaticModel
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from transformers import BertForMaskedLM, BertForTokenClassification

from evals import datasets
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.adapters.tensors import open_tensors
from tests.parity.padded import padded
from tests.running import CPU, dense, encode, encode_request, extract_request

# One array a text, `(num_vectors, dims)`: the dense vector first, then those of its tokens.
Rows = list[np.ndarray]
TOLERANCE = 1e-5
_EDGES = [
    "coffee",
    "  two  spaces  and a trailing one ",
    "def add(a, b):\n    return a + b",
    "Zürich – naïve café, 北京 and 👩‍👩‍👧!",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "人人生而自由，在尊严和权利上一律平等。",
    "सभी मनुष्य जन्म से स्वतंत्र हैं।",
    "Call +1 (555) 123-4567 or write to jane.obrien@example.com, 12 Main Street.",
]


@dataclass(frozen=True, slots=True)
class Reference:
    """What a library says: its vectors, and which of its classes made them."""

    rows: Rows
    class_name: str
    library: str

    @property
    def version(self) -> str:
        """The library's version."""
        return version(self.library)


def texts() -> list[str]:
    """Return 64 texts from a word to a page, the first 16 of all kinds."""
    passages = datasets.read_retrieval("xquad_en").documents[:6]
    products = datasets.read_jsonl("products.dev.jsonl")[:10]
    described = [f"{one['title']}. {one['description']}" for one in products]
    sentences = datasets.read_sts()[1][: 64 - len(passages) - len(described) - len(_EDGES)]
    return [
        *sentences[:4],
        *passages[:2],
        *described[:2],
        *_EDGES,
        *sentences[4:],
        *passages[2:],
        *described[2:],
    ]


def ours(adapter: Adapter, batch: Sequence[str]) -> Rows:
    """Return our vectors of documents that run in one packed batch."""
    names = [name for name in ("dense", "multivector") if name in adapter.card.dims]
    found = []
    for item in encode(adapter, batch, *names, is_query=False):
        rows = [item.dense.values[None]] if item.dense else []
        rows += [item.multivector.values] if item.multivector else []
        found.append(np.concatenate(rows))
    return found


def alone(adapter: Adapter, batch: Sequence[str], compute: Callable[..., Rows] = ours) -> Rows:
    """Return the same, each text in a batch of its own."""
    return [compute(adapter, [text])[0] for text in batch]


def by_sentence_transformers(
    folder: Path, batch: Sequence[str], tokenizer: Any = None
) -> Reference:
    """Read and run the folder with sentence-transformers, which runs transformers' class.

    `tokenizer` takes the place of the one that transformers builds.
    """
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True).float()
    if tokenizer is not None:
        model[0].processor = tokenizer
    first = getattr(model[0], "auto_model", model[0])
    found = model.encode_document(list(batch), output_value=None, batch_size=16)
    rows = []
    for one in found:
        parts = [one["sentence_embedding"][None]]
        if "token_embeddings" in one:
            real = one["attention_mask"].bool()
            parts.append(torch.nn.functional.normalize(one["token_embeddings"][real], dim=-1))
        rows.append(torch.cat(parts).float().numpy())
    library = type(first).__module__.partition(".")[0]
    return Reference(rows, type(first).__name__, library)


def by_multi_vector_encoder(folder: Path, batch: Sequence[str]) -> Reference:
    """Read and run a folder of late interaction with sentence-transformers."""
    model = MultiVectorEncoder(str(folder), device="cpu", local_files_only=True)
    rows = [np.asarray(one) for one in model.encode_document(list(batch), batch_size=16)]
    return Reference(rows, type(model).__name__, "sentence_transformers")


def by_model2vec(folder: Path, batch: Sequence[str]) -> Reference:
    """Read and run the folder with model2vec."""
    vectors = StaticModel.from_pretrained(folder).encode(list(batch))
    return Reference([one[None] for one in vectors], "StaticModel", "model2vec")


def our_sparse(adapter: Adapter, batch: Sequence[str]) -> Rows:
    """Return our sparse vectors, spread over the vocabulary."""
    found = []
    for item in encode(adapter, batch, "sparse"):
        row = np.zeros((1, item.sparse.dims), np.float32)
        row[0, item.sparse.indices] = item.sparse.values
        found.append(row)
    return found


def splade_by_transformers(folder: Path, adapter: Adapter, batch: Sequence[str]) -> Reference:
    """Return SPLADE's formula on transformers' logits: max over tokens of log1p(relu(logits))."""
    model = BertForMaskedLM.from_pretrained(folder, local_files_only=True).eval()
    sequences = adapter.prepare(encode_request(batch, "sparse")).sequences
    rows = []
    for sequence in sequences:
        inputs, _ = padded(model, [sequence])
        with torch.no_grad():
            logits = model(**inputs).logits
        rows.append(torch.log1p(torch.relu(logits)).amax(dim=1).numpy())
    return Reference(rows, "BertForMaskedLM", "transformers")


def our_tags(adapter: Adapter, batch: Sequence[str]) -> Rows:
    """Return the probability of each token's best label."""
    sequences = adapter.prepare(extract_request(batch)).sequences
    with torch.inference_mode():
        found = unpack(adapter.forward(pack(sequences, CPU)), len(sequences))
    return [one["scores"][None] for one in found]


def tags_by_transformers(folder: Path, adapter: Adapter, batch: Sequence[str]) -> Reference:
    """Return the same of transformers, given the weights that we read: it reads no such file."""
    model = BertForTokenClassification.from_pretrained(
        None, config=_config(folder), state_dict=_weights(folder)
    ).eval()
    sequences = adapter.prepare(extract_request(batch)).sequences
    rows = []
    for sequence in sequences:
        inputs, _ = padded(model, [sequence])
        with torch.no_grad():
            rows.append(model(**inputs).logits.softmax(-1).amax(-1).numpy())
    return Reference(rows, "BertForTokenClassification", "transformers")


def _config(folder: Path) -> Any:
    return BertForTokenClassification.config_class.from_pretrained(folder)


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    source = open_tensors(folder)
    return {name: source.get(name) for name in source.names()}


def difference(found: Rows, expected: Rows) -> tuple[float, float]:
    """Return the largest absolute difference and the lowest cosine of any two vectors.

    Raises:
        ValueError: another number of vectors for a text: the tokens differ.
    """
    worst, lowest = 0.0, 1.0
    for place, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.shape != other.shape:
            raise ValueError(f"text {place} has vectors {one.shape}, expected {other.shape}")
        worst = max(worst, float(np.abs(one - other).max()))
        norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosines = (one * other).sum(axis=1)[norms > 0] / norms[norms > 0]
        lowest = min(lowest, float(cosines.min(initial=1.0)))
    return worst, lowest


def our_dense(adapter: Adapter) -> Callable[[list[str], bool], np.ndarray]:
    """Return a function from texts to our unit vectors, in batches of like lengths."""

    def run(batch: list[str], is_query: bool) -> np.ndarray:
        filled = [place for place, text in enumerate(batch) if text.strip()]
        ordered = sorted(filled, key=lambda place: len(batch[place]))
        vectors = np.zeros((len(batch), adapter.card.dims["dense"]), np.float32)
        for start in range(0, len(ordered), 16):
            places = ordered[start : start + 16]
            chosen = [batch[place] for place in places]
            vectors[places] = dense(adapter, chosen, is_query=is_query, normalize=True)
        return vectors

    return run
