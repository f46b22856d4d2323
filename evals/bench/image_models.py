"""SigLIP and SigLIP 2 of the base shape with random weights in files, and pictures for them.

Texts are nobody's matter here: their tower has one narrow layer. Knows no clock.
"""

import io
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil

TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_TEXT = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 3,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "max_position_embeddings": 64,
}


@dataclass(frozen=True, slots=True)
class Family:
    """The reference's classes, whose defaults are the base shape."""

    model: Any
    config: Any
    vision_config: Any
    processor: Any


FAMILIES = {
    "siglip": Family(
        transformers.SiglipModel,
        transformers.SiglipConfig,
        transformers.SiglipVisionConfig,
        SiglipImageProcessorPil,
    ),
    "siglip2": Family(
        transformers.Siglip2Model,
        transformers.Siglip2Config,
        transformers.Siglip2VisionConfig,
        Siglip2ImageProcessorPil,
    ),
}


def save(family: str, folder: Path, settings: Mapping[str, int]) -> tuple[Any, Any]:
    """Write a checkpoint; return the reference's tower for images, float32, and its processor."""
    row = FAMILIES[family]
    vision = row.vision_config(**settings)
    text = {**_TEXT, "projection_size": vision.hidden_size}
    config = row.config(text_config=text, vision_config=vision.to_dict())
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    model, processor = row.model(config).eval(), row.processor()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    words = models.WordLevel({"[PAD]": 0, "[EOS]": 1, "fox": 2}, unk_token="[PAD]")
    Tokenizer(words).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": "[PAD]"}))
    return model.vision_model, processor


def pictures(count: int) -> list[bytes]:
    """Make JPEGs of smooth noise: 200 to 1,600 pixels a side, up to three times as wide as high."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(count):
        size = rng.integers(200, 1_600)
        shape = (int(size), int(np.clip(size * rng.uniform(0.33, 3.0), 64, 1_600)))
        drawn.append((rng.integers(0, 256, (16, 16, 3), dtype=np.uint8), shape))
    with ThreadPoolExecutor() as threads:
        return list(threads.map(_jpeg, *zip(*drawn, strict=True)))


def _jpeg(colours: np.ndarray, shape: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    picture = Image.fromarray(colours).resize(shape, Image.Resampling.BICUBIC)
    picture.save(file, "JPEG", quality=88)
    return file.getvalue()
