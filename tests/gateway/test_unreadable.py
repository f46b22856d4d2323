"""Lines of a pipe that cannot be read: answered where somebody waits, passed over elsewhere."""

import json

import pydantic
import pytest
from mcp.types import jsonrpc_message_adapter

from sie_mcp.gateway.unreadable import answer_unreadable

HALF = (
    r'{"jsonrpc":"2.0","id":ID,"method":"METHOD","params":{"name":"r","arguments":{"q":"\ud83d"}}}'
)


def refused(line: str) -> pydantic.ValidationError:
    with pytest.raises(pydantic.ValidationError) as error:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    return error.value


def answered(line: str) -> dict | None:
    answer = answer_unreadable(refused(line))
    return None if answer is None else json.loads(answer.model_dump_json(by_alias=True))


@pytest.mark.parametrize("number", ["12", '"a"'])
def test_half_an_emoji_in_a_call_is_the_tools_error(number):
    found = answered(HALF.replace("ID", number).replace("METHOD", "tools/call"))
    assert found is not None
    assert found["id"] == json.loads(number)
    assert found["result"]["isError"]
    assert "half of a surrogate pair" in found["result"]["content"][0]["text"]


def test_half_an_emoji_elsewhere_is_an_error_of_the_protocol():
    found = answered(HALF.replace("ID", "3").replace("METHOD", "prompts/get"))
    assert found is not None
    assert (found["id"], found["error"]["code"]) == (3, -32600)


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[" * 100_000,
        r'["\ud83d"]',
        r'{"jsonrpc":"2.0","id":1,"result":{"a":"\ud83d"}}',
        r'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"\ud83d"}}',
        r'{"jsonrpc":"2.0","id":"\ud83d","method":"ping"}',
        r'{"jsonrpc":"2.0","id":true,"method":"ping","params":{"a":"\ud83d"}}',
        '{"jsonrpc":"1.0","id":7,"method":"ping"}',
    ],
)
def test_where_nobody_waits_for_an_answer_there_is_none(line):
    assert answered(line) is None
