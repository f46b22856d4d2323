"""Images in bodies: both forms of a body, and what is no image's content."""

import base64

import pydantic
import pytest

from sie_mcp import wire
from sie_mcp.chunks import CHUNK_CHARS, IMAGE_BYTES, chunks
from sie_mcp.codec import JSON, MSGPACK, decode_body, encode_body

DATA = bytes(range(256))
TEXT = base64.b64encode(DATA).decode()


@pytest.mark.parametrize(
    "value",
    [
        DATA,
        TEXT,
        TEXT.translate(str.maketrans("+/", "-_")),
        f"data:image/png;base64,{TEXT}",
        f"DATA:image/PNG;charset=x;BASE64 ,{TEXT}",
        f"{TEXT[:60]}\n{TEXT[60:]}\n",
        {"data": TEXT},
    ],
)
def test_an_image_is_bytes_base64_or_a_data_uri(value: object) -> None:
    for body in ({"image": value}, {"images": [value]}, {"images": value}):
        (image,) = wire.Item.model_validate(body).images or []
        assert image.data == DATA


def test_what_the_reference_s_clients_send_is_taken() -> None:
    item = wire.Item.model_validate({"images": [{"data": DATA, "format": "jpeg"}]})
    assert item.images is not None and item.images[0].data == DATA


@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
def test_a_body_with_an_image_comes_back_as_it_was(media_type: str) -> None:
    request = wire.EncodeRequest.model_validate({"items": [{"image": DATA}, {"text": "a"}]})
    body = encode_body(request, media_type)
    assert wire.EncodeRequest.model_validate(decode_body(body, media_type)) == request


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("https://example.com/a.jpg", "URLs are not fetched"),
        ("file:///etc/passwd", "URLs are not fetched"),
        ("data:image/png,abc", "must hold base64"),
        ("not base64!", "is no base64"),
        ({"data": TEXT, "url": "a"}, "Extra inputs"),
        ([], "at least 1 item"),
        (7, "valid dictionary or instance of Image"),
    ],
)
def test_what_is_no_image_is_refused(value: object, message: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=message):
        wire.Item.model_validate({"images": value})


def test_large_images_go_in_several_requests() -> None:
    data = bytes(CHUNK_CHARS * IMAGE_BYTES // 2)
    items = [wire.Item.model_validate({"image": data}) for _ in range(5)]
    assert [len(chunk) for chunk in chunks(items)] == [2, 2, 1]
