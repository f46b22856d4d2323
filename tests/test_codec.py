"""Bodies to bytes and back: both forms, every array, and bytes from whoever sends them."""

import contextlib
import json

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sie_mcp import wire
from sie_mcp.codec import (
    JSON,
    MSGPACK,
    decode_body,
    encode_body,
    media_type_of,
    preferred_media_type,
)
from sie_mcp.errors import InvalidInput

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4)
    | st.dictionaries(st.text(max_size=5), children, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0))
    )
)
def test_an_array_comes_back_as_it_was(array):
    back = decode_body(encode_body({"values": array}, MSGPACK), MSGPACK)["values"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)


def test_the_layout_in_memory_does_not_matter():
    array = np.arange(12, dtype=">f4").reshape(3, 4)
    for view in (array.T, array[::2, ::-1], np.asfortranarray(array)):
        back = decode_body(encode_body({"values": view}, MSGPACK), MSGPACK)["values"]
        np.testing.assert_array_equal(back, view)


def test_an_array_travels_in_the_map_form_of_msgpack_numpy():
    packed = encode_body({"values": np.array([[1.5, 2.5]], dtype="<f4")}, MSGPACK)
    assert msgpack.unpackb(packed)["values"] == {
        b"nd": True,
        b"type": "<f4",
        b"kind": b"",
        b"shape": [1, 2],
        b"data": np.array([1.5, 2.5], dtype="<f4").tobytes(),
    }


def test_numbers_of_numpy_travel_as_numbers():
    packed = encode_body({"score": np.float32(0.5), "rank": np.int64(3)}, MSGPACK)
    assert decode_body(packed, MSGPACK) == {"score": 0.5, "rank": 3}


def test_a_numpy_number_in_the_map_form_is_read_as_a_number():
    packed = msgpack.packb({b"nd": False, b"type": "<f8", b"data": np.float64(2.5).tobytes()})
    assert decode_body(packed, MSGPACK) == 2.5


@given(plain)
@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
def test_plain_values_come_back_as_they_were(media_type, value):
    assert decode_body(encode_body({"value": value}, media_type), media_type) == {"value": value}


@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
def test_a_response_comes_back_as_it_was(media_type):
    item = wire.EncodedItem(
        id="ä", num_tokens=3, dense=wire.Dense(dims=2, values=np.array([0.25, -1.0], "f4"))
    )
    sent = wire.EncodeResponse(model="toy", items=[item])
    data = decode_body(encode_body(sent, media_type), media_type)
    assert "sparse" not in data["items"][0]
    back = wire.EncodeResponse.model_validate(data)
    assert back.items[0].id == "ä"
    np.testing.assert_array_equal(back.items[0].dense.values, [0.25, -1.0])


def test_json_shows_arrays_as_lists():
    dense = wire.Dense(dims=2, values=np.array([0.25, -1.0], "f4"))
    assert json.loads(encode_body(dense, JSON))["values"] == [0.25, -1.0]


def test_what_cannot_travel_is_named():
    with pytest.raises(TypeError, match="object cannot travel"):
        encode_body({"values": object()}, MSGPACK)


def array_map(**changes: object) -> bytes:
    fields = {"nd": True, "type": "<f4", "kind": b"", "shape": [2], "data": b"\0" * 8} | changes
    return msgpack.packb({name.encode(): value for name, value in fields.items()})


@pytest.mark.parametrize(
    "body",
    [
        array_map(type="|O"),
        array_map(type="|S8"),
        array_map(type="<c16"),
        array_map(type="<f16"),
        array_map(type=[["x", "<f4"]]),
        array_map(type=None),
        array_map(type=b"\xff"),
        array_map(data="text"),
        array_map(data=b"\0" * 7),
        array_map(shape=[3]),
        array_map(shape=[2**70 % 2**64, 2**40]),
        array_map(shape=[2**63]),
        array_map(shape=["x"]),
        array_map(shape=[None]),
        array_map(shape=[[2]]),
        array_map(shape=None),
        array_map(shape=[1] * 9),
        array_map(nd=False, type="|O"),
        msgpack.packb({b"nd": True}),
    ],
    ids=range(19),
)
def test_an_array_that_is_none_is_refused(body):
    with pytest.raises(InvalidInput, match="not valid application/msgpack"):
        decode_body(body, MSGPACK)


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"", JSON),
        (b"{", JSON),
        (b"\xff\xfe", JSON),
        (b"[" * 100_000, JSON),
        (b"1" * 10_000, JSON),
        (b"", MSGPACK),
        (b"\xc1", MSGPACK),
        (b"\x81", MSGPACK),
        (b"\xdd\xff\xff\xff\xff", MSGPACK),
        (b"\x91" * 100_000, MSGPACK),
        (b"\x81\x90\x01", MSGPACK),
        (b"\xa1\xff", MSGPACK),
        (b"\x01\x02", MSGPACK),
    ],
)
def test_bytes_that_are_no_body_are_the_callers_fault(body, media_type):
    with pytest.raises(InvalidInput, match=f"not valid {media_type}"):
        decode_body(body, media_type)


@pytest.mark.parametrize(
    ("body", "media_type", "reason"),
    [
        (b"[" * 100_000, JSON, "it is nested too deeply"),
        (b"\x91" * 100_000, MSGPACK, "it is nested too deeply"),
        (b"1" * 10_000, JSON, "value has 10000 digits"),
    ],
)
def test_a_body_that_cannot_be_read_is_explained_to_its_sender(body, media_type, reason):
    with pytest.raises(InvalidInput) as refused:
        decode_body(body, media_type)
    assert str(refused.value).endswith(reason)


@given(st.binary(max_size=200))
@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
def test_no_bytes_raise_anything_else(media_type, data):
    with contextlib.suppress(InvalidInput):
        decode_body(data, media_type)


@pytest.mark.parametrize(
    ("header", "media_type"),
    [
        (None, JSON),
        ("", JSON),
        ("application/json; charset=utf-8", JSON),
        ("Application/JSON", JSON),
        ("application/msgpack", MSGPACK),
        ("application/x-msgpack", MSGPACK),
    ],
)
def test_a_content_type_says_the_form(header, media_type):
    assert media_type_of(header) == media_type


def test_another_content_type_is_refused_with_what_would_work():
    with pytest.raises(InvalidInput, match="send application/json or application/msgpack"):
        media_type_of("text/xml")


@pytest.mark.parametrize(
    ("accept", "sent", "answered"),
    [
        (None, MSGPACK, MSGPACK),
        ("*/*", JSON, JSON),
        ("application/json", MSGPACK, JSON),
        ("application/msgpack", JSON, MSGPACK),
    ],
)
def test_an_answer_has_the_form_that_was_asked_for(accept, sent, answered):
    assert preferred_media_type(accept, sent) == answered


@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
def test_an_item_that_failed_has_no_score_and_still_travels(media_type):
    error = wire.ItemError(code="INFERENCE_ERROR", message="the forward pass failed")
    failed = wire.Score(item_id="item-0", index=0, score=None, rank=0, error=error)
    response = wire.ScoreResponse(model="toy", scores=[failed], score_type="logit")
    body = decode_body(encode_body(response, media_type), media_type)
    assert wire.ScoreResponse.model_validate(body) == response


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (wire.Dense, {"values": np.ones(3, np.float32), "dims": 3, "scale": 0.5}),
        (wire.EncodedItem, {"truncated": True, "num_tokens": 4}),
        (wire.EncodedItem, {"error": wire.ItemError(code="X", message="why")}),
        (wire.Score, {"item_id": "a", "index": 1, "rank": 0, "score": 0.5}),
    ],
)
def test_a_body_of_our_own_values_is_the_checked_one(kind, fields):
    made, checked = wire.of_ours(kind, fields), kind(**fields)
    assert list(vars(made)) == list(vars(checked))
    assert made.model_dump_json() == checked.model_dump_json()
    assert made.model_fields_set == checked.model_fields_set
