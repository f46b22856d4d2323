"""What is handed on of a request by who stands between its ends."""

import pytest
from starlette.requests import Request

from sie_mcp.handing_on import as_sent, handed_on, path_as_sent


def test_what_belongs_to_one_connection_is_not_handed_on():
    given = [
        ("Host", "a"), ("Connection", "close, X-Mine"), ("X-Mine", "1"), ("X-Other", "2"),
        ("TE", "trailers"), ("Content-Length", "3"), ("Expect", "100-continue"), ("X-Other", "4"),
    ]  # fmt: skip
    assert handed_on(given) == [("x-other", "2"), ("x-other", "4")]


@pytest.mark.parametrize("written", [b"plain", "é".encode(), b"\xff\xfe"])
def test_values_come_as_they_were_written(written):
    (_, value), *_ = as_sent([("x", written.decode("latin-1"))])
    is_text = written != b"\xff\xfe"
    assert (value.encode() == written) is is_text


@pytest.mark.parametrize(
    ("path", "query", "sent"),
    [
        ("/v1/encode/a%2Fb", b"", "/v1/encode/a%2Fb"),
        ("/v1/encode/../models", b"c=d", "/v1/encode/%2E%2E/models?c=d"),
        ("/v1/encode/./.a", b"", "/v1/encode/%2E/.a"),
    ],
)
def test_paths_keep_their_escapes_and_walk_nowhere(path, query, sent):
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": query}
    assert path_as_sent(Request(scope | {"raw_path": path.encode()})) == sent
