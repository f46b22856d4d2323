"""Pictures for tests, and requests with them. Knows files; knows nothing of models."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sie_mcp import wire

FOLDER = Path(__file__).parent / "pictures"
PHOTOS = tuple(one.read_bytes() for one in sorted(FOLDER.glob("*.jpg")))


def noise(width: int, height: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    """Return a picture in which every pixel differs from its neighbours."""
    bands = len(Image.new(mode, (1, 1)).getbands())
    shape = (height, width, bands) if bands > 1 else (height, width)
    values = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return Image.fromarray(values, mode=mode) if mode != "P" else _with_palette(values)


def _with_palette(values: np.ndarray) -> Image.Image:
    picture = Image.fromarray(values, mode="P")
    picture.putpalette([(place * 7) % 256 for place in range(768)])
    return picture


def saved(picture: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    """Return the picture as a file's content."""
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


def image_item(data: bytes, name: str | None = None) -> wire.Item:
    """Return an item that is an image."""
    return wire.Item.model_validate({"id": name, "image": data})


def encode_images(files: Sequence[bytes], **options: Any) -> wire.EncodeRequest:
    """Ask for the dense vectors of images."""
    params = {"output_types": ["dense"], "options": options}
    items = [{"image": one} for one in files]
    return wire.EncodeRequest.model_validate({"items": items, "params": params})


def match_images(query: str, files: Sequence[bytes], **options: Any) -> wire.ScoreRequest:
    """Score images by a text."""
    items = [{"image": one} for one in files]
    return wire.ScoreRequest.model_validate(
        {"query": {"text": query}, "items": items, "options": options}
    )


def label_images(files: Sequence[bytes], labels: Sequence[str], **options: Any) -> Any:
    """Classify images with labels."""
    items = [{"image": one} for one in files]
    params = {"labels": list(labels), "options": options}
    return wire.ExtractRequest.model_validate({"items": items, "params": params})
