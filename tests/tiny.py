"""Tiny checkpoints with random weights, written the way the reference libraries write real ones.

Knows files and formats; knows nothing of the product.
"""

import json
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import nn
from transformers import BertConfig, BertModel, PretrainedConfig, PreTrainedTokenizerFast

MAX_LENGTH = 128
HIDDEN_SIZE = 64
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]")
_LETTERS = string.ascii_lowercase + string.digits
_WORDS = (
    "alpha", "beta", "gamma", "delta", "one", "two", "three", "four", "morning", "coffee",
    "machine", "learning", "is", "subset", "of", "the", "hello", "world", "what", "who",
    "wrote", "it", "short", "query", "passage", "document",
)  # fmt: skip
VOCABULARY = (
    *_SPECIAL,
    *string.punctuation,
    *_LETTERS,
    *(f"##{letter}" for letter in _LETTERS),
    *_WORDS,
)

# The same module list, in the two generations that are in the wild.
OLD_TYPES = {
    "Transformer": "sentence_transformers.models.Transformer",
    "Pooling": "sentence_transformers.models.Pooling",
    "Dense": "sentence_transformers.models.Dense",
    "Normalize": "sentence_transformers.models.Normalize",
}
NEW_TYPES = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
    "LayerNorm": "sentence_transformers.sentence_transformer.modules.layer_norm.LayerNorm",
    "SpladePooling": "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling",
}


def bert_config(**changes: Any) -> BertConfig:
    """Return the smallest BERT whose heads, layers and positions can still be told apart."""
    sizes = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": HIDDEN_SIZE,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 96,
        "max_position_embeddings": MAX_LENGTH,
    }
    return BertConfig(**(sizes | changes))


def save_overflowing_bert(folder: Path, *, layer: int = 2) -> None:
    """Write a BERT in one of whose layers the word "boom", and no other, outgrows float16.

    Of the words' tables only "boom" has a first number; the layers before hardly change it, and a
    unit of this layer's MLP turns it into more than a million.
    """
    model = BertModel(bert_config(vocab_size=len(VOCABULARY) + 1, hidden_act="relu"))
    save_model(folder, model)
    embeddings, layers = model.embeddings, model.encoder.layer
    with torch.no_grad():
        for table in (embeddings.word_embeddings, embeddings.position_embeddings):
            table.weight[:, 0] = 0.0
        embeddings.token_type_embeddings.weight[:, 0] = 0.0
        embeddings.word_embeddings.weight[-1, 0] = 20.0
        for one in layers:
            one.attention.output.dense.weight *= 0.01
            one.output.dense.weight *= 0.01
        units = layers[layer]
        units.intermediate.dense.weight[0] = 0.0
        units.intermediate.dense.weight[0, 0] = 100.0
        units.intermediate.dense.bias[0] = -400.0
        units.output.dense.weight[:, 0] *= 1e6
    model.save_pretrained(folder)
    save_tokenizer(folder, wordpiece((*VOCABULARY, "boom")))
    write_modules(folder, [("Transformer", None), ("Pooling", {"pooling_mode": "mean"})])


def wordpiece(words: Sequence[str] = VOCABULARY, **normalizer: Any) -> Tokenizer:
    """Return BERT's tokenizer over a vocabulary of ours."""
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**({"lowercase": True} | normalizer))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def save_tokenizer(folder: Path, tokenizer: Tokenizer, *, max_length: int = MAX_LENGTH) -> None:
    """Write tokenizer.json and what the reference libraries want beside it."""
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)


def randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """Make weights large enough that every one of them moves the result."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator) * 0.15
            is_norm = "norm" in name.lower() and name.endswith("weight")
            parameter.copy_(noise + 1.0 if is_norm else noise)
    return module.eval()


def save_model(folder: Path, model: nn.Module, seed: int = 0) -> Any:
    """Write a transformers model with random weights and BERT's tokenizer; return the model."""
    randomise(model, seed)
    model.save_pretrained(folder)  # type: ignore[operator]
    save_tokenizer(folder, wordpiece())
    return model


def write_json(folder: Path, name: str, content: Any) -> None:
    """Write a file of the checkpoint, folders included."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def change_json(folder: Path, name: str, **changes: Any) -> None:
    """Set keys of a JSON file of the checkpoint; the file may be missing."""
    path = folder / name
    content = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    write_json(folder, name, content | changes)


def write_modules(
    folder: Path,
    modules: Sequence[tuple[str, Mapping[str, Any] | None]],
    types: Mapping[str, str] = NEW_TYPES,
) -> None:
    """Write modules.json, and the config of each module that has one, as `<idx>_<Class>`."""
    entries = []
    for index, (kind, config) in enumerate(modules):
        path = "" if kind == "Transformer" else f"{index}_{kind}"
        entries.append({"idx": index, "name": str(index), "path": path, "type": types[kind]})
        if path:
            (folder / path).mkdir(exist_ok=True)
        if config is not None:
            write_json(folder, f"{path}/config.json", config)
    write_json(folder, "modules.json", entries)


def config_of(folder: Path) -> PretrainedConfig:
    """Read config.json as transformers does."""
    return BertConfig.from_pretrained(folder)
