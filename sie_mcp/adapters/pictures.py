"""Pictures in files to patches of colours: opened with Pillow, checked before they are unpacked.

The steps are those of transformers' image processors on Pillow, in the same order, so that the
colours are the same. Runs on worker threads; knows no model.
"""

import io
import math
import struct
import zlib
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.image_patches import ImagePatches
from sie_mcp.adapters.image_rule import ImageRule, Size
from sie_mcp.errors import InvalidImage

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
# About 200 MB while a picture is unpacked.
MAX_PIXELS = 50_000_000
# No camera and no page is so long; what a filter reads grows with it.
MAX_SIDE = 32_768
_WHITE = (255, 255, 255, 255)
_MAX_SCALE, _PRECISION = 100.0, 1e-5


@dataclass(frozen=True, slots=True)
class PictureReader:
    """Makes a model's patches of pictures."""

    rule: ImageRule

    def sequence(self, data: bytes) -> Sequence:
        """Return what runs of a picture: a token a patch, and the tower's own.

        Raises:
            InvalidImage: as of `read`.
        """
        image = self.read(data)
        num_tokens = self.rule.num_extra + len(image.values)
        outputs = frozenset({"dense"})
        return Sequence(np.zeros(num_tokens, np.int64), outputs=outputs, image=image)

    def read(self, data: bytes) -> ImagePatches:
        """Return the patches of a picture; of several frames, the first's.

        Raises:
            InvalidImage: no picture of a known format, too many pixels, or a broken file.
        """
        picture = open_picture(data)
        return to_patches(resized(picture, self.rule), self.rule)


def open_picture(data: bytes) -> Image.Image:
    """Unpack a picture upright and in three colours; what is transparent is white.

    Raises:
        InvalidImage: see `PictureReader.read`.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as file:
            _check_size(file)
            return _upright(file)
    except UnidentifiedImageError as error:
        known = ", ".join(FORMATS)
        raise InvalidImage(f"the image is of no known format; known: {known}") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large("") from error
    # What a broken file makes of Pillow's readers is any of these.
    except (OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError) as error:
        raise _broken(str(error)) from error
    except (AttributeError, ArithmeticError, MemoryError, struct.error, zlib.error) as error:
        raise _broken(type(error).__name__) from error


def _broken(reason: str) -> InvalidImage:
    return InvalidImage(f"the image is broken or cut off ({reason:.100}); send the whole file")


def _too_large(size: str) -> InvalidImage:
    return InvalidImage(
        f"the image has too many pixels{size}; the limit is {MAX_PIXELS:,} in all and "
        f"{MAX_SIDE:,} a side: send it smaller"
    )


def _check_size(file: ImageFile.ImageFile) -> None:
    """Refuse by what the header says, before a pixel is unpacked."""
    width, height = file.size
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE:
        raise _too_large(f" ({width:,} x {height:,})")


def _upright(file: ImageFile.ImageFile) -> Image.Image:
    file.load()
    picture = ImageOps.exif_transpose(file)
    if picture.mode.startswith("I") or picture.mode == "F":
        picture = _in_bytes(picture)
    if "A" not in picture.getbands() and picture.info.get("transparency") is None:
        return picture.convert("RGB")
    picture = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", picture.size, _WHITE), picture).convert("RGB")


def _in_bytes(picture: Image.Image) -> Image.Image:
    """Bring shades of grey with more than eight bits to eight: Pillow would cut them off."""
    values = np.asarray(picture, dtype=np.float32)
    top = 1.0 if picture.mode == "F" and values.max(initial=0.0) <= 1.0 else 65_535.0
    return Image.fromarray((values.clip(0, top) * (255.0 / top)).round().astype(np.uint8))


def resized(picture: Image.Image, rule: ImageRule) -> np.ndarray:
    """Resize and crop; return colours, uint8 `(height, width, 3)`."""
    size = _target(picture, rule)
    if size is not None:
        height, width = size
        picture = picture.resize((width, height), resample=Image.Resampling(rule.resample))
    colours = np.asarray(picture)
    return colours if rule.crop is None else _middle(colours, rule.crop)


def to_patches(colours: np.ndarray, rule: ImageRule) -> ImagePatches:
    """Cut colours `(height, width, 3)` into patches, row by row."""
    side = rule.patch_size
    height, width = colours.shape[0] // side, colours.shape[1] // side
    grid = colours[: height * side, : width * side].reshape(height, side, width, side, 3)
    order = (0, 2, 1, 3, 4) if rule.has_colours_last else (0, 2, 4, 1, 3)
    values = grid.transpose(order).reshape(height * width, rule.patch_numbers)
    return ImagePatches(np.ascontiguousarray(values), (height, width))


def _target(picture: Image.Image, rule: ImageRule) -> Size | None:
    if rule.max_patches:
        return _fitting(picture.height, picture.width, rule)
    if rule.shortest_edge:
        short, long = sorted((picture.height, picture.width))
        longer = int(rule.shortest_edge * long / short)
        if longer > MAX_SIDE:
            raise InvalidImage(
                f"the image is too narrow ({long:,} x {short:,} pixels); send a part of it"
            )
        is_high = picture.height > picture.width
        return (longer, rule.shortest_edge) if is_high else (rule.shortest_edge, longer)
    return rule.size


def _fitting(height: int, width: int, rule: ImageRule) -> Size:
    """Return the largest size of whole patches, as many as allowed, of about the picture's shape.

    The scale is found by halving, down to the reference's precision: its sizes depend on it.
    """
    low, high = _PRECISION / 10, _MAX_SCALE
    while high - low >= _PRECISION:
        scale = (low + high) / 2
        rows, columns = (_whole(one, scale, rule.patch_size) for one in (height, width))
        fits = rows * columns <= rule.max_patches * rule.patch_size**2
        low, high = (scale, high) if fits else (low, scale)
    return _whole(height, low, rule.patch_size), _whole(width, low, rule.patch_size)


def _whole(length: int, scale: float, side: int) -> int:
    return max(side, math.ceil(length * scale / side) * side)


def _middle(colours: np.ndarray, size: Size) -> np.ndarray:
    """Cut out the middle; black where the picture is smaller."""
    places = [_span(have, want) for have, want in zip(colours.shape[:2], size, strict=True)]
    out = np.zeros((*size, 3), dtype=np.uint8)
    (top, above, high), (left, before, wide) = places
    out[above : above + high, before : before + wide] = colours[
        top : top + high, left : left + wide
    ]
    return out


def _span(have: int, want: int) -> tuple[int, int, int]:
    """Return where the cut begins, where it goes in what is wanted, and how long it is.

    A smaller picture's spare line goes above or to the left, as in the reference.
    """
    if have >= want:
        return (have - want) // 2, 0, want
    return 0, math.ceil((want - have) / 2), have
