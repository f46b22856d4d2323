"""Checkpoints of real shapes with random weights and a real tokenizer, which ours and peers read.

Knows files and texts; knows nothing of engines, peers or clocks.
"""

import json
from collections.abc import Sequence as Series
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer

from evals.bench.shapes import SHAPES, config_of
from evals.datasets import DATA

# As `--tokenizer` says it: a folder with tokenizer.json.
TOKENIZER = DATA / "minilm"
TINY = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
MAX_LENGTH = 512


def make_folder(
    folder: Path,
    name: str,
    *,
    tokenizer: Path,
    task: str = "dense",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Path:
    """Write a checkpoint of a shape ("tiny" is one too) into a new folder and return it."""
    folder.mkdir(parents=True)
    known = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    settings = _settings(name) | {"vocab_size": known.get_vocab_size()}
    config = transformers.BertConfig(**settings, num_labels=1)
    head = "BertModel" if task == "dense" else "BertForSequenceClassification"
    torch.manual_seed(seed)
    with torch.device("meta"):
        module = getattr(transformers, head)(config)
    save_file(_random(module, dtype, seed), folder / "model.safetensors", metadata={"format": "pt"})
    config.architectures = [head]
    config.dtype = dtype
    config.save_pretrained(folder)
    known.no_padding()
    known.no_truncation()
    known.save(str(folder / "tokenizer.json"))
    of_tokenizer = {
        "tokenizer_class": "BertTokenizer",
        "model_max_length": MAX_LENGTH,
        "do_lower_case": True,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(of_tokenizer))
    if task == "dense":
        _write_modules(folder, config.hidden_size)
        limits = {"max_seq_length": MAX_LENGTH, "do_lower_case": False}
        (folder / "sentence_bert_config.json").write_text(json.dumps(limits))
    return folder


def tail(count: int, *, median: float = 45.0, seed: int = 0) -> list[str]:
    """Draw texts of mixed lengths: log-normal, of 4 to 400 words."""
    rng = np.random.default_rng(seed)
    sizes = np.clip(rng.lognormal(np.log(median), 0.9, count), 4, 400).astype(int)
    return of_sizes(sizes.tolist(), rng)


def of_sizes(sizes: Series[int], rng: np.random.Generator) -> list[str]:
    """Draw texts of that many words of a speech."""
    words = np.array((DATA / "state_of_the_union.txt").read_text("utf-8").split())
    drawn = words[rng.integers(0, len(words), sum(sizes))]
    ends = np.cumsum(sizes)
    return [" ".join(part) for part in np.split(drawn, ends[:-1])]


def _write_modules(folder: Path, dims: int) -> None:
    """Write a pipeline that pools by the mean, in the older words that every peer reads."""
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {
            "idx": 1,
            "name": "1",
            "path": "1_Pooling",
            "type": "sentence_transformers.models.Pooling",
        },
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": dims, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))


def _settings(name: str) -> dict[str, Any]:
    if name in SHAPES:
        return {key: value for key, value in config_of(name).items() if key != "model_type"}
    more = {"intermediate_size": 4 * TINY["hidden_size"], "max_position_embeddings": MAX_LENGTH}
    return {**TINY, **more}


def _random(module: torch.nn.Module, dtype: torch.dtype, seed: int) -> dict[str, torch.Tensor]:
    """Draw weights as such models are initialised; norms begin at one."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, meta in module.named_parameters():
        tensor = torch.empty(meta.shape, dtype=torch.float32)
        is_scale = "LayerNorm" in name and name.endswith("weight")
        tensor = tensor.fill_(1.0) if is_scale else tensor.normal_(0.0, 0.05, generator=generator)
        weights[name] = tensor.to(dtype)
    return weights
