"""Checkpoints of real and of tiny shapes with random weights, made on the spot.

Knows files and shapes; knows nothing of workers or load.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from safetensors.torch import save_file

from tests.parity.checkpoints import make_tokenizer, padding_id, write_modules

Kind = Literal["dense", "cross_encoder", "classification", "token_classification"]
Primitive = Literal["encode", "score", "extract"]

_PRIMITIVES: dict[Kind, Primitive] = {
    "dense": "encode",
    "cross_encoder": "score",
    "classification": "extract",
    "token_classification": "extract",
}
_HEADS = {
    "dense": "Model",
    "cross_encoder": "ForSequenceClassification",
    "classification": "ForSequenceClassification",
    "token_classification": "ForTokenClassification",
}
_FAMILIES = {
    "bert": "Bert",
    "roberta": "Roberta",
    "distilbert": "DistilBert",
    "modernbert": "ModernBert",
}
MAX_LENGTH = 512


@dataclass(frozen=True, slots=True)
class Shape:
    """What a checkpoint looks like; heads have 64 numbers each, or 16 where it is tiny."""

    name: str
    family: str = "bert"
    kind: Kind = "dense"
    layers: int = 2
    hidden: int = 64
    vocabulary: int = 1_000

    @property
    def heads(self) -> int:
        """Attention heads of a layer."""
        return self.hidden // (64 if self.hidden >= 256 else 16)


@dataclass(frozen=True, slots=True)
class Model:
    """A checkpoint on disk, and what it is asked for."""

    name: str
    folder: Path
    primitive: Primitive
    size_bytes: int


# The shape of BERT-large and E5-large: 335 million weights, 670 MB in bfloat16.
LARGE = Shape("large", layers=24, hidden=1024, vocabulary=30_522)

# Shapes in daily use, from MiniLM to E5-large: 2.6 GB in bfloat16.
TWELVE = (
    Shape("minilm-6", layers=6, hidden=384, vocabulary=30_522),
    Shape("bge-base", layers=12, hidden=768, vocabulary=30_522),
    Shape("e5-small", layers=12, hidden=384, vocabulary=30_522),
    Shape("rerank-6", kind="cross_encoder", layers=6, hidden=384, vocabulary=30_522),
    Shape("gte-modern", "modernbert", layers=22, hidden=768, vocabulary=50_368),
    Shape("distil", "distilbert", layers=6, hidden=768, vocabulary=30_522),
    Shape("names-base", kind="token_classification", layers=12, hidden=768, vocabulary=28_996),
    Shape("roberta", "roberta", layers=12, hidden=768, vocabulary=50_265),
    Shape("e5-large", layers=24, hidden=1024, vocabulary=30_522),
    Shape("rerank-base", "roberta", "cross_encoder", layers=12, hidden=768, vocabulary=50_265),
    Shape("topics", kind="classification", layers=12, hidden=768, vocabulary=30_522),
    Shape("minilm-12", layers=12, hidden=384, vocabulary=30_522),
)


def small_twelve(*, hidden: int = 256) -> tuple[Shape, ...]:
    """Return twelve of the same families and tasks for a CPU: at 256, 3 to 21 MB in float32."""
    return tuple(
        Shape(one.name, one.family, one.kind, max(one.layers // 4, 1), hidden, 2_000)
        if place % 3
        else Shape(one.name, one.family, one.kind, max(one.layers // 3, 2), hidden, 8_000)
        for place, one in enumerate(TWELVE)
    )


def make(shape: Shape, folder: Path, *, dtype: torch.dtype, seed: int = 0) -> Model:
    """Write a checkpoint into a new folder."""
    folder.mkdir(parents=True)
    config = _config(shape)
    head = f"{_FAMILIES[shape.family]}{_HEADS[shape.kind]}"
    with torch.device("meta"):
        module = getattr(transformers, head)(config)
    config.architectures = [head]
    config.dtype = dtype
    config.save_pretrained(folder)
    weights = _random(module, dtype, seed)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    make_tokenizer(_tokenizer(shape)).save(str(folder / "tokenizer.json"))
    if shape.kind == "dense":
        write_modules(folder, shape.hidden, "mean")
    size_bytes = (folder / "model.safetensors").stat().st_size
    return Model(shape.name, folder, _PRIMITIVES[shape.kind], size_bytes)


def _random(module: torch.nn.Module, dtype: torch.dtype, seed: int) -> dict[str, torch.Tensor]:
    """Draw weights as these models are initialised, in the dtype itself: no float32 copy."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, meta in module.named_parameters():
        tensor = torch.empty(meta.shape, dtype=dtype)
        if "norm" in name.lower() and name.endswith("weight"):
            weights[name] = tensor.fill_(1.0)
        else:
            weights[name] = tensor.normal_(0.0, 0.05, generator=generator)
    return weights


def _tokenizer(shape: Shape) -> str:
    return "roberta" if shape.family == "roberta" else "bert"


def _config(shape: Shape) -> Any:
    sizes: dict[str, Any] = {
        "vocab_size": shape.vocabulary,
        "pad_token_id": padding_id(_tokenizer(shape)),
        "max_position_embeddings": MAX_LENGTH,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": 4 * shape.hidden,
    }
    if shape.family == "roberta":
        # Positions begin behind the padding token's.
        sizes |= {"max_position_embeddings": MAX_LENGTH + 2, "type_vocab_size": 1}
    if shape.family == "modernbert":
        special = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
        sizes |= special | {"intermediate_size": 3 * shape.hidden // 2}
    if shape.family == "distilbert":
        own = {"hidden_size": "dim", "num_hidden_layers": "n_layers"}
        own |= {"num_attention_heads": "n_heads", "intermediate_size": "hidden_dim"}
        sizes = {own.get(key, key): value for key, value in sizes.items()}
    labels: dict[Kind, dict[str, Any]] = {
        "dense": {},
        "cross_encoder": {"num_labels": 1},
        "classification": {"num_labels": 5},
        "token_classification": {
            "id2label": {0: "O", 1: "B-NAME", 2: "I-NAME"},
            "label2id": {"O": 0, "B-NAME": 1, "I-NAME": 2},
        },
    }
    kind = getattr(transformers, f"{_FAMILIES[shape.family]}Config")
    return kind(**sizes, **labels[shape.kind])
