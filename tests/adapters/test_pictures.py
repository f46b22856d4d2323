"""Pictures that come in: formats, sides, colours, and what is refused before it is unpacked."""

import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from sie_mcp.adapters.image_rule import ImageRule
from sie_mcp.adapters.pictures import MAX_PIXELS, MAX_SIDE, PictureReader, open_picture
from sie_mcp.errors import InvalidImage
from tests.picture_files import PHOTOS, noise, saved

# Pillow warns of many things that are no fault of ours; a worker's log may hold them.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def colours(data: bytes) -> np.ndarray:
    return np.asarray(open_picture(data))


@pytest.mark.parametrize(
    ("form", "options"),
    [("PNG", {}), ("BMP", {}), ("TIFF", {}), ("WEBP", {"lossless": True}), ("GIF", {})],
)
def test_a_format_without_loss_gives_the_picture_s_own_colours(form: str, options: dict) -> None:
    picture = noise(9, 7, "P" if form == "GIF" else "RGB")
    assert np.array_equal(colours(saved(picture, form, **options)), picture.convert("RGB"))


def test_a_photograph_is_read_as_pillow_does() -> None:
    for photo in PHOTOS:
        assert open_picture(photo).mode == "RGB"
        assert min(open_picture(photo).size) > 100


def test_what_is_transparent_is_white() -> None:
    clear = Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert (colours(saved(clear)) == 255).all()
    half = Image.new("RGBA", (4, 4), (0, 0, 0, 128))
    assert np.abs(colours(saved(half)).astype(int) - 127).max() <= 1
    grey = Image.new("LA", (4, 4), (40, 255))
    assert (colours(saved(grey)) == 40).all()
    marked = noise(6, 6, "P")
    shown = colours(saved(marked, transparency=marked.getpixel((0, 0))))
    assert (shown[0, 0] == 255).all()


def test_a_picture_is_turned_upright_as_its_camera_says() -> None:
    picture = noise(8, 4)
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = colours(saved(picture, "PNG", exif=exif))
    assert np.array_equal(turned, np.rot90(np.asarray(picture), -1))


def test_of_several_frames_the_first_is_read() -> None:
    frames = [noise(5, 5, "P", seed=seed) for seed in range(3)]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert np.array_equal(colours(data), frames[0].convert("RGB"))


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bits_of_grey_are_not_cut_off_at_eight(form: str) -> None:
    values = np.linspace(0, 65_535, 64).reshape(8, 8).astype(np.uint16)
    found = colours(saved(Image.fromarray(values), form))
    assert np.array_equal(found[..., 0], (values / 257).round().astype(np.uint8))


def test_inks_become_colours() -> None:
    picture = noise(16, 16, "CMYK")
    found = colours(saved(picture, "JPEG", quality=95))
    assert found.shape == (16, 16, 3)


def png_of(width: int, height: int) -> bytes:
    """Return a PNG whose header promises so many pixels, and that holds none of them."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(1_000_000)))
    return b"\x89PNG\r\n\x1a\n" + head + pixels + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("width", "height"),
    [(10_000, 9_999), (60_000, 60_000), (2**31 - 1, 1), (MAX_SIDE + 1, 1), (1, MAX_SIDE + 1)],
)
def test_a_bomb_is_refused_by_its_header(
    width: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpack(*_: object) -> None:
        raise AssertionError("it was unpacked")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", unpack)
    with pytest.raises(InvalidImage, match="too many pixels"):
        open_picture(png_of(width, height))


def test_the_limit_of_pixels_is_what_a_camera_makes() -> None:
    assert MAX_PIXELS == 50_000_000


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.7\n", b"%!PS-Adobe-3.0"],
)
def test_what_is_no_picture_of_a_known_format_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidImage, match="known: JPEG, PNG, WEBP, GIF, BMP, TIFF"):
        open_picture(data)


def test_a_format_that_pillow_knows_and_we_do_not_is_refused() -> None:
    with pytest.raises(InvalidImage, match="no known format"):
        open_picture(saved(noise(4, 4), "PPM"))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_a_file_that_was_cut_off_is_refused(form: str) -> None:
    data = saved(noise(64, 64, "P" if form == "GIF" else "RGB"), form)
    with pytest.raises(InvalidImage, match=r"broken or cut off|no known format"):
        open_picture(data[: len(data) // 2])


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_a_broken_file_is_refused_or_read_and_nothing_else(form: str) -> None:
    data = saved(noise(24, 24, "P" if form == "GIF" else "RGB"), form)
    chance = random.Random(form)
    num_refused = 0
    for _ in range(150):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        try:
            open_picture(bytes(broken))
        except InvalidImage:
            num_refused += 1
    assert num_refused > 0


def test_a_picture_too_narrow_for_its_shorter_side_is_refused() -> None:
    reader = PictureReader(ImageRule(4, shortest_edge=224, crop=(224, 224)))
    with pytest.raises(InvalidImage, match="too narrow"):
        reader.read(saved(noise(1, 400)))


def test_a_large_picture_of_any_shape_keeps_to_its_patches() -> None:
    reader = PictureReader(ImageRule(4, max_patches=16, has_colours_last=True))
    for size in ((1, 3_000), (3_000, 1), (500, 500), (1, 1)):
        image = reader.read(saved(noise(*size)))
        assert len(image.values) == image.shape[0] * image.shape[1]
        # A patch is the least that a side can have.
        assert len(image.values) <= 16 or 1 in image.shape
