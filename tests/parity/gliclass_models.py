"""Tiny random GLiClass checkpoints, and what the gliclass package itself says of texts."""

from pathlib import Path
from typing import Any

import torch
from gliclass import GLiClassModel, GLiClassModelConfig
from gliclass.pipeline import UniEncoderZeroShotClassificationPipeline
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from tests.parity.checkpoints import make_tokenizer, spread
from tests.parity.jina_tasks import BY_NAME
from tests.parity.row import VOCAB_SIZE
from tests.running import extract

MARKERS = ("<<LABEL>>", "<<SEP>>", "<<EXAMPLE>>")
LABELS = ["river", "morning coffee", "stone x delta"]
TEXTS = [
    "alpha beta gamma",
    "delta",
    "coffee in the morning beside a river of stone w3 w9 w27 w11 w12 w13 w14 w15",
    "w5 epsilon " * 20,
]
# Variant -> what its config says; all that is served comes up.
VARIANTS: dict[str, dict[str, Any]] = {
    "deberta-v2 simple first": {"prompt_first": True},
    "deberta-v2 simple text first": {
        "normalize_features": True,
        "problem_type": "multi_label_classification",
    },
    "deberta-v2 mlp avg": {
        "prompt_first": True,
        "scorer_type": "mlp",
        "pooling_strategy": "avg",
        "class_token_pooling": "average",
    },
    "modernbert weighted-dot last": {
        "prompt_first": True,
        "scorer_type": "weighted-dot",
        "pooling_strategy": "last",
        "embed_class_token": False,
    },
    "modernbert hopfield max": {"scorer_type": "hopfield", "pooling_strategy": "max"},
    "modernbert simple average without marker": {
        "pooling_strategy": "rms",
        "class_token_pooling": "average",
        "embed_class_token": False,
        "normalize_features": True,
        "prompt_first": True,
    },
    "bert simple from text": {
        "prompt_first": True,
        "extract_text_features": True,
        "hidden_size": 48,
    },
    "bert mlp sum": {
        "scorer_type": "mlp",
        "pooling_strategy": "sum",
        "normalize_features": True,
    },
    "bert simple abs_max": {"pooling_strategy": "abs_max", "prompt_first": True},
    "bert simple abs_avg": {"pooling_strategy": "abs_avg", "prompt_first": True},
}


def save(folder: Path, variant: str, **changes: Any) -> Any:
    """Save a variant as the library does; return its pipeline."""
    row = BY_NAME[variant.partition(" ")[0]]
    torch.manual_seed(3)
    encoder = CONFIG_MAPPING[row.name](**{**row.config, "pad_token_id": 0}).to_dict()
    config = GLiClassModelConfig(
        encoder_config=encoder | {"model_type": row.name},
        encoder_model="encoder",
        vocab_size=VOCAB_SIZE + len(MARKERS),
        class_token_index=VOCAB_SIZE,
        text_token_index=VOCAB_SIZE + 1,
        initializer_range=0.2,
        **(VARIANTS[variant] | changes),
    )
    config.encoder_config._attn_implementation = "eager"
    model = GLiClassModel(config).eval()
    spread(model)
    model.save_pretrained(folder)
    tokenizer = make_tokenizer("bert")
    tokenizer.add_special_tokens([AddedToken(one, normalized=False) for one in MARKERS])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]")
    fast.save_pretrained(folder)
    return UniEncoderZeroShotClassificationPipeline(
        model, fast, device="cpu", progress_bar=False, classification_type="multi-label"
    )


def expected(pipeline: Any, text: str, kind: str, prompt: str | None = None) -> dict[str, float]:
    """Return the library's score of every label, for one text alone: padding is pooled too."""
    (scores,) = pipeline(
        [text], LABELS, classification_type=kind, prompt=prompt, return_hierarchical=True
    )
    if kind == "multi-label":
        return dict(scores)
    # Without the others it would hand back only the best.
    logits = pipeline.get_embeddings([text], LABELS, prompt=prompt)[0]["logits"]
    shares = torch.softmax(torch.tensor(logits), dim=-1).tolist()
    return dict(zip(LABELS, shares, strict=True))


def found(adapter: Any, texts: list[str], *, multi_label: bool) -> list[dict[str, float]]:
    """Return the same of an adapter, all texts in one batch."""
    items = extract(adapter, texts, LABELS, multi_label=multi_label)
    return [{one.label: one.score for one in item.classifications} for item in items]


def furthest(adapter: Any, pipeline: Any) -> float:
    """Return the largest difference of any score, both kinds."""
    return max(
        abs(own[label] - score)
        for kind in ("multi-label", "single-label")
        for own, text in zip(
            found(adapter, TEXTS, multi_label=kind == "multi-label"), TEXTS, strict=True
        )
        for label, score in expected(pipeline, text, kind).items()
    )
