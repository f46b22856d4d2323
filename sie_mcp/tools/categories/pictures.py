"""Pictures of products beside their texts: one image model's cosines with the names of categories.

Which picture a text has is a path in the allowed folders, or the picture itself in base64. One that
cannot be read is no error of its text, which is then classified without it. Decides nothing.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import anyio.to_thread
import numpy as np
import pydantic

from sie_mcp import wire
from sie_mcp.catalogue.taxonomy import Taxonomy
from sie_mcp.client import Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.image_files import (
    DEFAULT_MODEL,
    ENDINGS,
    PART_BYTES,
    PART_IMAGES,
    compares,
    image_model,
    item_of,
    read_image,
)
from sie_mcp.tools.node_vectors import NodeVectors, NodeVectorStore
from sie_mcp.tools.vectors import PROBE, embed_texts
from sie_mcp.wire_images import Image, is_data_uri

MAX_PATH_CHARS = 4_096
# What stands before base64 in a data URI, and what lines break it into.
_MORE_CHARS = 1_000
_VECTORS = wire.EncodeParams(output_types=["dense"], options=wire.EncodeOptions(normalize=True))


@dataclass(frozen=True, slots=True)
class Pictured:
    """Unit vectors `(dims,)` of the pictures of texts, by the texts' places, and what is wrong."""

    nodes: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    vectors: dict[int, np.ndarray] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)

    def cosines(self, places: Sequence[int]) -> np.ndarray | None:
        """Return cosines with the nodes, `(num_places, num_nodes)`.

        Zeros where there is no picture; None when none of these texts has one.
        """
        rows = [row for row, place in enumerate(places) if place in self.vectors]
        if not rows:
            return None
        found = np.zeros((len(places), len(self.nodes)), np.float32)
        found[rows] = np.stack([self.vectors[places[row]] for row in rows]) @ self.nodes.T
        return found


@dataclass(frozen=True, slots=True)
class PictureReader:
    """An image model that has read the categories' names already."""

    context: ToolContext
    nodes: NodeVectors

    @property
    def model(self) -> str:
        """The model's name."""
        return self.nodes.model

    async def look(self, images: Sequence[str], progress: Progress) -> Pictured:
        """Read and encode the pictures that texts have, "" for none; each once.

        Raises:
            SieError: what the worker answered to all of them at once, such as a full queue.
        """
        seen = Pictured(self.nodes.values)
        places: dict[str, list[int]] = {}
        for place, image in enumerate(images):
            if image:
                places.setdefault(image, []).append(place)
        parts = self._parts(list(places), places, seen)
        while part := await anyio.to_thread.run_sync(next, parts, None):
            items = [item_of(data) for _, data in part]
            answer = await self.context.client.encode(
                self.model, items, _VECTORS, progress=progress
            )
            for (image, _), item in zip(part, answer.items, strict=True):
                for place in places[image]:
                    if item.dense is not None:
                        seen.vectors[place] = np.asarray(item.dense.values, np.float32)
                    else:
                        why = item.error.message if item.error else "no vector"
                        seen.problems[place] = f"image: {why}"
        return seen

    def _parts(
        self, images: Sequence[str], places: dict[str, list[int]], seen: Pictured
    ) -> Iterator[list[tuple[str, bytes]]]:
        """Yield what can be read, few at once."""
        part: list[tuple[str, bytes]] = []
        num_bytes = 0
        for image in images:
            try:
                data = read_picture(self.context, image)
            except InvalidInput as error:
                seen.problems.update(dict.fromkeys(places[image], str(error)))
                continue
            if part and (len(part) == PART_IMAGES or num_bytes + len(data) > PART_BYTES):
                yield part
                part, num_bytes = [], 0
            part.append((image, data))
            num_bytes += len(data)
        if part:
            yield part


async def make_picture_reader(
    context: ToolContext, store: NodeVectorStore, model: str, taxonomy: Taxonomy
) -> PictureReader:
    """Let an image model read the categories' names; "auto" is one that is up, or the default.

    Raises:
        InvalidInput: the model does not compare images with texts.
        SieError: what the worker answered.
    """
    chosen = await image_model(context.client, model)
    # Loads it: only then is all of it known.
    probe = await embed_texts(context.client, chosen, [PROBE], progress=context.progress)
    card = await context.client.model(probe.model)
    if not compares(card):
        raise InvalidInput(
            f"image_model: {card.name} does not compare images with texts; name a CLIP or SigLIP "
            f"model, such as {DEFAULT_MODEL}"
        )
    return PictureReader(context, await store.get(chosen, taxonomy, context.progress))


def read_picture(context: ToolContext, image: str) -> bytes:
    """Return a picture's bytes: of a file, or of base64, alone or in a data URI.

    Raises:
        InvalidInput: no such picture inside the allowed folders, too large, or no base64.
    """
    if is_path(image):
        path = context.folders.to_read(image, ENDINGS, argument="image")
        return read_image(path, context.config)
    limit_bytes = context.config.max_image_bytes
    if len(image) > limit_bytes * 3 // 2 + _MORE_CHARS:
        raise InvalidInput(
            f"image: {len(image):,} characters hold more than {limit_bytes:,} bytes, the limit "
            "(max_image_bytes); make it smaller"
        )
    try:
        data = Image.model_validate(image).data
    except pydantic.ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InvalidInput(f"image: {reason}, or a file's path") from error
    if len(data) > limit_bytes:
        raise InvalidInput(
            f"image: more than {limit_bytes:,} bytes, the limit (max_image_bytes); make it smaller"
        )
    return data


def is_path(image: str) -> bool:
    """Whether it names a file: base64 has no dot, and a picture's file has an ending."""
    return not is_data_uri(image) and "." in image and len(image) <= MAX_PATH_CHARS


def mark_of(context: ToolContext, image: str) -> str:
    """Return what tells a picture from another that had its name: of a file, its size and time.

    A file that is not there, or not inside the allowed folders, has none. Opens nothing.
    """
    if not is_path(image):
        return hashlib.blake2b(image.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    try:
        status = context.folders.to_read(image, ENDINGS, argument="image").path.stat()
    except (InvalidInput, OSError):
        return image
    return f"{image} {status.st_size} {status.st_mtime_ns}"
