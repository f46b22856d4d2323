"""sentence-transformers over the same checkpoints, as it is called by those who use it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer


def fast_dtype(device: torch.device) -> torch.dtype:
    """Return what a peer is quickest in: float16 on a card, float32 elsewhere."""
    return torch.float16 if device.type == "cuda" else torch.float32


def encoder(folder: Path, device: torch.device, dtype: torch.dtype) -> SentenceTransformer:
    """Load a checkpoint."""
    return SentenceTransformer(str(folder), device=device.type, model_kwargs={"dtype": dtype})


def encoding(model: SentenceTransformer, texts: Sequence[str], size: int) -> Callable[[], object]:
    """Return a pass over texts in batches of `size`, vectors on the host."""
    return lambda: model.encode(list(texts), batch_size=size, show_progress_bar=False)


def exact(folder: Path, device: torch.device, texts: Sequence[str]) -> np.ndarray:
    """Return what float32 gives, `(num_texts, dims)`."""
    model = encoder(folder, device, torch.float32)
    found: np.ndarray = model.encode(list(texts), batch_size=32, show_progress_bar=False)
    return found


def reranker(folder: Path, device: torch.device, dtype: torch.dtype) -> CrossEncoder:
    """Load a cross-encoder."""
    return CrossEncoder(str(folder), device=device.type, model_kwargs={"dtype": dtype})


def scoring(
    model: CrossEncoder, query: str, documents: Sequence[str], size: int
) -> Callable[[], np.ndarray]:
    """Return a pass over one query with every document."""
    pairs = [(query, one) for one in documents]
    return lambda: np.asarray(model.predict(pairs, batch_size=size, show_progress_bar=False))
