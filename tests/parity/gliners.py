"""Tiny random GLiNER checkpoints, named and laid out as the gliner package saves them.

The package does not go with every transformers release, so its answers lie in
gliner_expected.json. `python -m tests.parity.gliner_reference` writes that file where the package
is installed, and checks that it loads these checkpoints with every tensor in its place.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

HIDDEN = 24
LABELS = ["person", "city", "date of birth", "naïve-label", "x"]
TEXTS = [
    "Ann met Bob in Paris on 3 May 1999.",
    "x",
    "unbelievable e-mail: ann@example.org, well-known; snake_case (4.5 %) – Zoë Müller",
    "",
    " ".join(f"river{n} stone Coffee" for n in range(12)),
    "İstanbul 👩 Dora, é Eve",
]
# Labels, threshold, and the package's and our words for what may overlap.
QUESTIONS: tuple[tuple[list[str], float, dict[str, bool], dict[str, Any]], ...] = (
    (LABELS, 0.5, {}, {}),
    (LABELS, 0.8, {"flat_ner": False}, {"overlap": "nested"}),
    (LABELS[1:], 0.5, {"multi_label": True}, {"multi_label": True}),
    (LABELS[:1], 0.2, {}, {}),
    ([*LABELS[:2], LABELS[0]], 0.3, {}, {}),
)
EXPECTED = Path(__file__).parent / "gliner_expected.json"
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ADDED = ("[FLERT]", "<<ENT>>", "<<SEP>>")
_PIECES = [*"abcdefghijklmnopqrstuvwxyzéëïüñ0123456789@.,;:()%-_–", "river", "stone", "son", "per"]


@dataclass(frozen=True)
class Kind:
    """One checkpoint: an encoder, settings of gliner_config.json, and how its tokenizer splits."""

    name: str
    model_type: str
    encoder: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, Any] | None = None
    tokenizer: str = "wordpiece"
    scale: float = 0.2
    seed: int = 5


_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
}
_DEBERTA = {
    **_SMALL,
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "max_relative_positions": -1,
    "position_biased_input": False,
    "type_vocab_size": 0,
}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
_TOKEN = {"span_mode": "token_level"}
KINDS = (
    Kind("deberta", "deberta-v2", _DEBERTA, tokenizer="metaspace"),
    Kind("deberta-marker", "deberta-v2", _DEBERTA, {"span_mode": "marker"}, tokenizer="metaspace"),
    Kind("bert-v1", "bert", _SMALL, {"span_mode": "markerV1", "max_width": 5}, seed=6),
    Kind("bert-no-rnn", "bert", _SMALL, {"num_rnn_layers": 0, "subtoken_pooling": "last"}),
    Kind("bert-mean", "bert", _SMALL, {"subtoken_pooling": "mean", "hidden_size": 32}),
    Kind("xlm-roberta-max", "xlm-roberta", _SMALL, {"subtoken_pooling": "max"}, seed=6),
    Kind("modernbert", "modernbert", _SMALL, {"num_rnn_layers": 2}, tokenizer="bytes", scale=0.13),
    Kind("t5", "t5", _T5, {"embed_ent_token": False}, tokenizer="metaspace"),
    Kind("deberta-token", "deberta-v2", _DEBERTA, _TOKEN, tokenizer="metaspace", seed=1),
    Kind("bert-token-no-marker", "bert", _SMALL, {**_TOKEN, "embed_ent_token": False}, seed=1),
    Kind(
        "bi-deberta-bert", "deberta-v2", _DEBERTA, labels=_SMALL, tokenizer="metaspace", scale=0.24
    ),
    Kind("bi-bert-token", "bert", _SMALL, _TOKEN, labels={**_SMALL, "hidden_size": HIDDEN}, seed=1),
)
BY_NAME = {kind.name: kind for kind in KINDS}


def save_gliner(folder: Path, kind: Kind, words: Sequence[str] = ()) -> None:
    """Write a checkpoint: weights, gliner_config.json and tokenizers.

    Of `words`, which "metaspace" alone takes, each is one token.
    """
    tokenizer = make_tokenizer(kind.tokenizer, words=words)
    settings = settings_of(kind, tokenizer.get_vocab_size())
    (folder / "gliner_config.json").write_text(json.dumps(settings))
    save_tokenizer(folder, tokenizer)
    if kind.labels is not None:
        (folder / "labels_tokenizer").mkdir()
        save_tokenizer(folder / "labels_tokenizer", make_tokenizer("wordpiece", added=False))
    save_file(random_tensors(kind, settings), folder / "model.safetensors")


def settings_of(kind: Kind, vocab_size: int) -> dict[str, Any]:
    """Return gliner_config.json."""
    settings: dict[str, Any] = {
        "model_name": "tiny",
        "hidden_size": HIDDEN,
        "max_width": 12,
        "max_len": 384,
        "max_types": 25,
        "dropout": 0.4,
        "span_mode": "markerV0",
        "vocab_size": vocab_size,
        "class_token_index": vocab_size - 2,
        "encoder_config": {**kind.encoder, "model_type": kind.model_type, "vocab_size": vocab_size},
        **kind.settings,
    }
    if kind.labels is not None:
        num_words = make_tokenizer("wordpiece", added=False).get_vocab_size()
        own = {**kind.labels, "model_type": "bert", "vocab_size": num_words}
        settings |= {"labels_encoder": "tiny-labels", "labels_encoder_config": own}
    return settings


def shapes_of(kind: Kind, settings: dict[str, Any]) -> dict[str, list[int]]:
    """Return the tensors of a checkpoint and their shapes."""
    shapes = encoder_shapes("token_rep_layer.bert_layer.model.", settings["encoder_config"])
    size = settings["hidden_size"]
    width = settings["encoder_config"].get("hidden_size", 32)
    if size != width:
        shapes |= linear("token_rep_layer.projection", width, size)
    if kind.labels is not None:
        own = settings["labels_encoder_config"]
        shapes |= encoder_shapes("token_rep_layer.labels_encoder.model.", own)
        if own["hidden_size"] != size:
            shapes |= linear("token_rep_layer.labels_projection", own["hidden_size"], size)
    for layer in range(settings.get("num_rnn_layers", 1)):
        for end in ("", "_reverse"):
            half = size // 2
            for name, shape in (("weight_ih", [4 * half, size]), ("weight_hh", [4 * half, half])):
                shapes[f"rnn.lstm.{name}_l{layer}{end}"] = shape
            for name in ("bias_ih", "bias_hh"):
                shapes[f"rnn.lstm.{name}_l{layer}{end}"] = [4 * half]
    return shapes | _head_shapes(settings)


def _head_shapes(settings: dict[str, Any]) -> dict[str, list[int]]:
    size, mode = settings["hidden_size"], settings["span_mode"]
    if mode == "token_level":
        return (
            linear("scorer.proj_token", size, 2 * size)
            | linear("scorer.proj_label", size, 2 * size)
            | linear("scorer.out_mlp.0", 3 * size, 4 * size)
            | linear("scorer.out_mlp.3", 4 * size, 3)
        )
    return span_shapes(size, mode)


def span_shapes(size: int, mode: str) -> dict[str, list[int]]:
    """Return the tensors that make vectors of spans and labels."""
    before, shapes = (
        "span_rep_layer.span_rep_layer.",
        two("prompt_rep_layer", size, 4 * size, size),
    )
    inner = 2 * size if mode == "marker" else 4 * size
    for part in ("start", "end") + (("first",) if mode == "markerV1" else ()):
        shapes |= two(f"{before}project_{part}", size, inner, size)
    if mode == "marker":
        return shapes | linear(f"{before}out_project", 2 * size, size)
    width = 3 * size if mode == "markerV1" else 2 * size
    return shapes | two(f"{before}out_project", width, 4 * size, size)


def encoder_shapes(prefix: str, config: dict[str, Any]) -> dict[str, list[int]]:
    """Return the tensors of an encoder and their shapes."""
    import transformers  # noqa: PLC0415 – only where a checkpoint is made

    kind = config["model_type"]
    own = {key: value for key, value in config.items() if key != "model_type"}
    full = transformers.AutoConfig.for_model(kind, **own)
    with torch.device("meta"):
        library = transformers.T5EncoderModel if kind == "t5" else None
        model = library(full) if library else transformers.AutoModel.from_config(full)
    return {f"{prefix}{name}": list(one.shape) for name, one in model.named_parameters()}


def linear(name: str, size: int, out_size: int) -> dict[str, list[int]]:
    """Return a layer of numbers in and out."""
    return {f"{name}.weight": [out_size, size], f"{name}.bias": [out_size]}


def two(name: str, size: int, inner: int, out_size: int) -> dict[str, list[int]]:
    """Return two layers, as with dropout between them."""
    return linear(f"{name}.0", size, inner) | linear(f"{name}.3", inner, out_size)


def random_tensors(kind: Kind, settings: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return weights that are the same on every machine and with every release of torch."""
    return filled(kind, shapes_of(kind, settings))


def filled(kind: Kind, shapes: dict[str, list[int]]) -> dict[str, torch.Tensor]:
    """Return weights of these shapes."""
    random = np.random.RandomState(kind.seed)
    tensors = {}
    for name, shape in sorted(shapes.items()):
        values = random.standard_normal(shape) * kind.scale
        if name.lower().endswith("norm.weight"):
            values = values * 0.3 + 1.0
        if name == "scorer.out_mlp.3.bias":
            values = values + 1.5  # Else all three of a word are hardly ever over a threshold.
        tensors[name] = torch.from_numpy(np.asarray(values, dtype=np.float32))
    return tensors


def make_tokenizer(kind: str, *, added: bool = True, words: Sequence[str] = ()) -> Tokenizer:
    """Return a tokenizer of a family's sort, which cuts words into pieces."""
    if kind == "wordpiece":
        pieces = [*_SPECIAL, *_PIECES, *(f"##{one}" for one in _PIECES)]
        tokenizer = Tokenizer(models.WordPiece(_numbered(pieces), unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    elif kind == "metaspace":
        scores = [(one, 0.0) for one in _SPECIAL] + [("▁", -2.0)]
        scores += [(one, -4.0) for one in _PIECES] + [(f"▁{one}", -3.0) for one in ("per", "stone")]
        scores += [(f"▁{one}", -3.0) for one in words]
        tokenizer = Tokenizer(models.Unigram(scores, unk_id=1))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
    else:
        pieces = [*_SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
        tokenizer = Tokenizer(models.BPE(_numbered(pieces), [], unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens([*_SPECIAL, *(_ADDED if added else ())])
    return tokenizer


def _numbered(words: list[str]) -> dict[str, int]:
    return {word: place for place, word in enumerate(words)}


def save_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    """Write tokenizer.json and its settings."""
    tokenizer.save(str(folder / "tokenizer.json"))
    names = ("pad", "unk", "cls", "sep", "mask")
    content = {f"{name}_token": f"[{name.upper()}]" for name in names}
    content["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(content))
