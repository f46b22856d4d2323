"""What a door's request stands for, written down and read again, and how often it is counted."""

import pytest

from sie_mcp.errors import BodyTooLarge, InvalidInput, QueueFull, RateLimited, WorkerUnavailable
from sie_mcp.joining import ALONE, MAX_JOINED_ITEMS, Share
from sie_mcp.shares import SHARE_HEADER, Counted, read_share, share_in_header

FIRST, ONE, LAST = Share(7, is_first_try=True), Share(7, is_one=True), Share(7)


@pytest.mark.parametrize("share", [ALONE, FIRST, ONE, LAST])
@pytest.mark.parametrize("name", ["encode", "embeddings", "tei_embed"])
def test_what_is_written_down_is_read_again(name, share):
    assert read_share({SHARE_HEADER: share_in_header(name, share)}) == Counted(name, share)


@pytest.mark.parametrize(
    "value",
    [None, "", "encode", "encode x first", "encode -1 first", "nothing 3 first", "encode  3"],
)
def test_what_is_no_share_is_one_request(value):
    headers = {} if value is None else {SHARE_HEADER: value}
    assert read_share(headers) == Counted("encode")


@pytest.mark.parametrize(("number", "read"), [(0, 1), (10**9, MAX_JOINED_ITEMS)])
def test_nobody_stands_for_none_or_for_more_than_a_group_has(number, read):
    assert read_share({SHARE_HEADER: f"encode {number} last"}).share.number == read


@pytest.mark.parametrize(
    ("share", "error", "number"),
    [
        (FIRST, None, 7),
        (FIRST, InvalidInput, 0),
        (FIRST, BodyTooLarge, 0),
        (FIRST, QueueFull, 0),
        (FIRST, RateLimited, 0),
        (FIRST, WorkerUnavailable, 7),
        (ONE, None, 1),
        (ONE, InvalidInput, 1),
        (ONE, QueueFull, 7),
        (ONE, RateLimited, 7),
        (ONE, WorkerUnavailable, 7),
        (LAST, None, 7),
        (LAST, InvalidInput, 7),
        (ALONE, QueueFull, 1),
    ],
)
def test_an_answer_is_counted_once_for_each_whom_it_reaches(share, error, number):
    code = None if error is None else error.code
    assert Counted("encode", share).num_answered(code) == number
