"""Figures on real data that a model with the right weights and the right maths must reproduce."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from model2vec import StaticModel
from safetensors import safe_open
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from evals import datasets
from evals.figures import Figure, retrieval_figures
from evals.quality import MAXSIM_QUERIES, first_hit
from sie_mcp.adapters.adapter import Adapter
from tests.running import encode

# Texts, and whether they are queries, to unit vectors `(num_texts, dims)`.
Encode = Callable[[list[str], bool], np.ndarray]
_PARAPHRASES = "A man is eating food.", "A man is eating a piece of bread."
_UNRELATED = "The stock market crashed yesterday."
_PROMPT, _NEXT = "The capital of France is", " Paris"


def similarity(model: str, encode_texts: Encode, reference: float | None) -> Figure:
    """Spearman correlation with human judgement on STS-B dev; both sides are queries."""
    gold, first, second = datasets.read_sts()
    cosines = (encode_texts(first, True) * encode_texts(second, True)).sum(axis=1)
    value = float(spearmanr(cosines, gold).statistic)
    return Figure(model, "STS-B dev Spearman", value, reference)


def cranfield(model: str, encode_texts: Encode, references: Mapping[str, float]) -> list[Figure]:
    """NDCG@10 and recall@100 of a search by cosine."""
    data = datasets.read_retrieval("cranfield")
    documents, queries = encode_texts(data.documents, False), encode_texts(data.queries, True)
    return retrieval_figures(data, queries @ documents.T, model, dict(references))


def late_interaction(model: str, adapter: Adapter, reference: float) -> Figure:
    """Recall@1 of MaxSim on XQuAD-en."""
    data = datasets.read_retrieval("xquad_en")
    queries, query_ids = data.queries[:MAXSIM_QUERIES], data.query_ids[:MAXSIM_QUERIES]
    asked = _token_vectors(adapter, queries, is_query=True)
    documents = _token_vectors(adapter, data.documents, is_query=False)
    starts = np.cumsum([0, *(len(one) for one in documents[:-1])])
    table = np.concatenate(documents).T
    scores = np.stack(
        [np.maximum.reduceat(one @ table, starts, axis=1).sum(axis=0) for one in asked]
    )
    value = first_hit(scores, query_ids, data)
    return Figure(model, "xquad_en MaxSim R@1", value, reference)


def _token_vectors(adapter: Adapter, texts: list[str], *, is_query: bool) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    for start in range(0, len(texts), 16):
        items = encode(adapter, texts[start : start + 16], "multivector", is_query=is_query)
        found += [item.multivector.values for item in items]
    return found


def paraphrase(model: str, encode_texts: Encode, references: Mapping[str, float]) -> list[Figure]:
    """Cosines of a paraphrase and of an unrelated pair."""
    first, second, other = encode_texts([*_PARAPHRASES, _UNRELATED], False)
    values = {"paraphrase cosine": first @ second, "unrelated cosine": first @ other}
    return [
        Figure(model, name, float(value), references.get(name)) for name, value in values.items()
    ]


def next_token(model: str, adapter: Adapter, folder: Path) -> Figure:
    """Whether Paris is what our last hidden state, times the tied embedding, calls most likely.

    Token vectors are of unit length, which moves no maximum.
    """
    (item,) = encode(adapter, [_PROMPT], "multivector")
    with safe_open(folder / "model.safetensors", framework="np") as stored:
        table = stored.get_tensor("model.embed_tokens.weight")
    best = int((table @ item.multivector.values[-1]).argmax())
    token = Tokenizer.from_file(str(folder / "tokenizer.json")).decode([best])
    return Figure(model, f"next token after {_PROMPT!r} is {_NEXT!r}", float(token == _NEXT), 1.0)


def by_model2vec(folder: Path) -> Encode:
    """Return the same function as ours by model2vec."""
    model = StaticModel.from_pretrained(folder)
    return lambda batch, is_query: unit(model.encode(batch))


def by_sentence_transformers(folder: Path) -> Encode:
    """Return the same function as ours by sentence-transformers."""
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True).float()

    def run(batch: list[str], is_query: bool) -> np.ndarray:
        encode_texts = model.encode_query if is_query else model.encode_document
        return encode_texts(batch, batch_size=16, normalize_embeddings=True)

    return run


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return rows of unit length; a row of zeros stays."""
    norms: np.ndarray = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(norms, 1e-12)
