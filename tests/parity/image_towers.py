"""Tiny random checkpoints of two towers with what their images go through, and the reference."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil

from sie_mcp.adapters.adapter import Adapter
from tests.parity.checkpoints import save
from tests.parity.run import load
from tests.parity.table_of_towers import TOWERS, VISION
from tests.picture_files import PHOTOS, encode_images, noise, saved
from tests.running import run

# Photographs, and pictures of other shapes, colours and formats; the last is smaller than any size.
FILES = (
    *PHOTOS,
    saved(noise(31, 90)),
    saved(noise(200, 41, seed=1), "WEBP", lossless=True),
    saved(noise(64, 64, "RGBA", seed=2)),
    saved(noise(17, 23, "L", seed=3), "BMP"),
    saved(noise(3, 5, seed=4), "TIFF"),
)
TEXTS = ["alpha", "morning coffee", "river stone x gamma"]
_BY_NAME = {row.name: row for row in TOWERS}
_LARGER = {**VISION, "num_hidden_layers": 2}


@dataclass(frozen=True)
class Pair:
    """A two-tower row and its image processor."""

    name: str
    row: str
    processor: Any
    vision: dict[str, Any]


_CLIP_SIZE = {"size": {"shortest_edge": 24}, "crop_size": {"height": 16, "width": 16}}
PAIRS: tuple[Pair, ...] = (
    Pair("clip", "clip", CLIPImageProcessorPil(**_CLIP_SIZE), {"image_size": 16}),
    Pair(
        # The middle reaches past the shorter side: there it is black.
        "clip, cut wider",
        "clip",
        CLIPImageProcessorPil(size={"shortest_edge": 9}, crop_size=16, resample=2),
        {"image_size": 16, "hidden_act": "gelu"},
    ),
    Pair(
        "siglip",
        "siglip",
        SiglipImageProcessorPil(size={"height": 12, "width": 12}),
        {"image_size": 12},
    ),
    Pair(
        "siglip, as it comes",
        "siglip",
        SiglipImageProcessorPil(size={"height": 12, "width": 12}, do_normalize=False, resample=1),
        {"image_size": 12},
    ),
    Pair(
        "siglip2",
        "siglip2",
        Siglip2ImageProcessorPil(patch_size=4, max_num_patches=30),
        {"num_patches": 16},
    ),
    Pair(
        # More patches than positions one way, fewer the other.
        "siglip2, few positions",
        "siglip2",
        Siglip2ImageProcessorPil(patch_size=4, max_num_patches=60),
        {"num_patches": 9},
    ),
)


def save_pair(pair: Pair, folder: Path) -> Any:
    """Save a checkpoint; return the reference model."""
    row = _BY_NAME[pair.row]
    known = {key: one for key, one in _LARGER.items() if key in VISION}
    # One shape of images is of no meaning to a tower that takes any.
    known = {key: one for key, one in known.items() if pair.row != "siglip2" or key != "image_size"}
    config = {**row.config, "vision_config": {**known, **pair.vision}}
    if pair.row != "clip":
        # Its vectors are as wide as the tower for images.
        text = {**row.config["text_config"], "projection_size": known["hidden_size"]}
        config["text_config"] = text
    model = save(replace(row, config=config), "dense", folder)
    pair.processor.save_pretrained(folder)
    return model


def expected_vectors(pair: Pair, model: Any, files: Sequence[bytes]) -> np.ndarray:
    """Return the reference's vectors of images, `(num_files, dims)`."""
    pictures = [opened(one) for one in files]
    # SigLIP 2's processor leaves this to those who open pictures.
    inputs = pair.processor(images=pictures, do_convert_rgb=True, return_tensors="pt")
    with torch.no_grad():
        found: np.ndarray = model.get_image_features(**inputs).pooler_output.numpy()
    return found


def opened(data: bytes) -> Image.Image:
    """Open a file as the reference's users do."""
    return Image.open(io.BytesIO(data))


def vectors(adapter: Adapter, files: Sequence[bytes]) -> np.ndarray:
    """Return our vectors of images."""
    return np.stack([one.dense.values for one in run(adapter, encode_images(files)).items])


def furthest(pair: Pair, folder: Path) -> float:
    """Return the largest difference of any number of any picture."""
    model = save_pair(pair, folder)
    return float(np.abs(vectors(load(folder), FILES) - expected_vectors(pair, model, FILES)).max())
