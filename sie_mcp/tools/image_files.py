"""Pictures in the allowed folders, and their files' bytes for the worker. Unpacks nothing."""

import hashlib
from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from sie_mcp import wire
from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import AllowedPath, Folders
from sie_mcp.tools.index.found import File, Found, find_files
from sie_mcp.tools.inputs import as_list
from sie_mcp.tools.opening import open_file
from sie_mcp.wire_images import Image

ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
# Apache-2.0, and small enough for a CPU: about 0.8 GB.
DEFAULT_MODEL = "siglip-base-patch16-224"
# Pictures that are read and sent together: few enough to lose little, and to fit in memory.
PART_IMAGES = 32
PART_BYTES = 16 * 1024 * 1024
MAX_TOTAL_BYTES = 64 * 1024**3
ImagePaths = Annotated[
    list[str],
    BeforeValidator(as_list),
    Field(
        min_length=1,
        max_length=100,
        description="Folders, files or patterns (photos/**/*.jpg) in an allowed folder; default: "
        "all of it.",
    ),
]


def find_images(folders: Folders, paths: Sequence[str]) -> Found:
    """Find the pictures that paths, folders and patterns name, by their endings.

    Raises:
        InvalidInput: as of `find_files`; none is a picture.
    """
    return find_files(folders, paths, endings=ENDINGS, max_total_bytes=MAX_TOTAL_BYTES)


def read_image(path: AllowedPath, config: Config) -> bytes:
    """Read a picture's file.

    Raises:
        InvalidInput: too large, or what `open_file` refuses.
    """
    with open_file(path, max(config.max_file_bytes, config.max_image_bytes)) as file:
        data = file.read(config.max_image_bytes + 1)
    if len(data) > config.max_image_bytes:
        raise InvalidInput(
            f"{path.name} has more than {config.max_image_bytes:,} bytes, the limit "
            "(max_image_bytes); make it smaller"
        )
    return data


def digest_of(data: bytes) -> str:
    """Return what tells a picture's bytes from others."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def item_of(data: bytes) -> wire.Item:
    """Return the item that is a picture."""
    return wire.Item(images=[Image(data=data)])


def parts_of(files: Sequence[File]) -> list[list[File]]:
    """Cut a list of files into parts that are read and sent together."""
    parts: list[list[File]] = []
    left = 0
    for file in files:
        if not parts or len(parts[-1]) == PART_IMAGES or file.size > left:
            parts.append([])
            left = PART_BYTES
        parts[-1].append(file)
        left -= file.size
    return parts


async def image_model(client: EngineClient, model: str) -> str:
    """Return the model to ask: for "auto" one that is up and reads images, else the default."""
    if model != "auto":
        return model
    cards = (await client.models()).models
    up = [card.name for card in cards if compares(card) and card.loaded]
    return up[0] if up and DEFAULT_MODEL not in up else DEFAULT_MODEL


def compares(card: wire.ModelCard) -> bool:
    """Whether it makes one vector of an image or a text: some detect, describe or compare pages."""
    one_vector = "dense" in card.outputs or not card.outputs
    return {"image", "text"} <= {*card.inputs} and one_vector
