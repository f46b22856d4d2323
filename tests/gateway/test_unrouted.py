"""What a gateway says to requests that nothing takes as they are: typed, in its own form."""

import pytest

from sie_mcp.gateway.proxy import SMALL_BYTES, Proxy
from tests.gateway.front import ITEMS, gateway
from tests.scripted_worker import answers

pytestmark = pytest.mark.anyio

# Of one answer alone.
ONCE = {"date", "x-request-id", "x-sie-request-id"}
OWN = ["/healthz", "/readyz", "/openapi.json", "/mcp", "/", "/nothing", "/v1/jobs/x"]


@pytest.mark.parametrize("path", [*OWN, "/v1/models", "/v1/models/toy"])
async def test_head_says_what_get_would_say(front, path):
    got = await front.http.get(path)
    asked = await front.http.head(path)
    assert asked.status_code == got.status_code
    assert asked.content == b""
    assert int(asked.headers["content-length"]) == len(got.content) > 0
    told = [
        {name: value for name, value in answer.headers.items() if name not in ONCE}
        for answer in (asked, got)
    ]
    assert told[0] == told[1]


async def test_head_of_the_metrics_is_answered_without_them(front):
    asked = await front.http.head("/metrics")
    assert (asked.status_code, asked.content) == (200, b"")
    assert int(asked.headers["content-length"]) > 1_000


@pytest.mark.parametrize("size", [10, 2 * SMALL_BYTES])
async def test_head_has_the_length_of_an_answer_however_large(front, size):
    front.worker.script = [answers(bytes(size))]
    asked = await front.http.head("/v1/models/toy")
    assert (asked.headers["content-length"], asked.content) == (str(size), b"")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "NOT_FOUND"),
        ("POST", "/v1/encode/a%0Ab", 404, "NOT_FOUND"),
        ("PUT", "/v1/models", 405, "METHOD_NOT_ALLOWED"),
        ("DELETE", "/embed", 405, "METHOD_NOT_ALLOWED"),
    ],
)
async def test_what_no_route_takes_is_a_typed_error(front, method, path, status, code):
    answer = await front.http.request(method, path)
    assert answer.status_code == status
    assert answer.headers["x-sie-error-code"] == answer.json()["error"]["code"] == code
    assert "GET /openapi.json" in answer.json()["error"]["message"]
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize(
    ("headers", "status", "setting"),
    [
        ({"Host": "evil.example"}, 421, "SIE_MCP_ALLOWED_HOSTS"),
        ({"Origin": "https://evil.example"}, 403, "SIE_MCP_ALLOWED_ORIGINS"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/encode/toy", "/mcp"])
async def test_a_host_that_is_not_let_in_hears_which_setting_would(
    front, path, headers, status, setting
):
    answer = await front.http.post(path, json=ITEMS, headers=headers)
    assert answer.status_code == status
    message = answer.json()["error"]["message"]
    assert setting in message
    assert next(iter(headers.values())) in message


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "localhost:80"])
async def test_this_machine_is_let_in_with_and_without_a_port(front, host):
    answer = await front.http.post("/v1/encode/toy", json=ITEMS, headers={"Host": host})
    assert answer.status_code == 200


@pytest.mark.parametrize("name", ["User-Agent", "X-SIE-Client", "X-Anything"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
async def test_a_header_that_is_not_ascii_is_handed_on(front, name, encoding):
    value = "Zoë's".encode(encoding)
    answer = await front.http.post("/v1/encode/toy", json=ITEMS, headers={name: value})
    assert answer.status_code == 200
    (seen,) = front.worker.seen
    assert seen.headers[name.lower()].encode("latin-1").decode() == "Zoë's"


async def test_what_nothing_foresaw_is_a_typed_error_without_its_reason(monkeypatch):
    def broken(*_: object) -> object:
        raise RuntimeError("secret")

    monkeypatch.setattr(Proxy, "_headers", broken)
    async with gateway() as front:
        answer = await front.http.post("/v1/embeddings", json={"input": "a"})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "INTERNAL_ERROR"
    assert "secret" not in answer.text
