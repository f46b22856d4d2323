"""Messages and records: read as they were written, refused as anything else."""

import msgpack
import pytest

from sie_mcp.broker.job_records import JobRecord
from sie_mcp.broker.messages import (
    ALONE,
    DEADLINE,
    ID,
    Answer,
    Call,
    deadline_of,
    error_answer,
    name_of,
    pack,
    unpack_answer,
    unpack_call,
)
from sie_mcp.errors import InvalidInput, QueueFull, SieError

CALL = Call("POST", "/v1/encode/m?x=1", (("accept", "application/json"),), b"\x00\xff")
ANSWER = Answer(200, (("a", "b"), ("a", "c")), b"body")


def test_what_is_packed_is_unpacked():
    assert unpack_call(pack(CALL)) == CALL
    assert unpack_answer(pack(ANSWER)) == ANSWER


@pytest.mark.parametrize("data", [b"", b"\xc1", b"{}", msgpack.packb([1, 2]), msgpack.packb("x")])
def test_anything_else_is_refused(data):
    for unpack in (unpack_call, unpack_answer):
        with pytest.raises(InvalidInput, match="no message of this version"):
            unpack(data)
    with pytest.raises(SieError, match="of another version"):
        JobRecord.unpack(data)


def test_an_answer_is_no_call():
    with pytest.raises(InvalidInput):
        unpack_call(pack(ANSWER))


def test_an_error_says_its_code_and_when_to_come_again():
    answer = error_answer(QueueFull("full", retry_after_s=2.0))
    assert answer.status == 503
    assert dict(answer.headers)["X-SIE-Error-Code"] == "QUEUE_FULL"
    assert dict(answer.headers)["Retry-After"] == "2"


def test_a_request_has_one_name_in_both_lanes():
    assert name_of({ID: "x"}) == name_of({ID: f"x{ALONE}"}) == "x"
    assert name_of({}) == ""


@pytest.mark.parametrize(("headers", "expected"), [({}, None), ({DEADLINE: "soon"}, None)])
def test_a_deadline_that_is_none_is_no_deadline(headers, expected):
    assert deadline_of(headers) is expected
    assert deadline_of({DEADLINE: "12.5"}) == 12.5


def test_a_record_is_read_as_it_was_written():
    record = JobRecord("waiting", "me", "l4", 12.5).ended(b"answer", None)
    assert JobRecord.unpack(record.pack()) == record
    assert record.state == "done"
    assert record.now("cancelled").answer == b"answer"
