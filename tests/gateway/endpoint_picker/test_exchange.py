"""Requests through a proxy, part by part: when they are given a worker, and how they end."""

import pytest

from sie_mcp.connection import Want
from sie_mcp.errors import InvalidInput, QueueFull, WorkerUnavailable
from sie_mcp.gateway.endpoint_picker.messages import BALANCING, MAX_PART_BYTES, SERVED
from sie_mcp.gateway.endpoint_picker.rules import Rules
from sie_mcp.gateway.wanted import MAX_READ_BYTES
from tests.gateway.endpoint_picker.parts import (
    MODES,
    A,
    B,
    NotingPicks,
    body,
    destination,
    exchange,
    head,
    response,
    sent_on,
    set_headers,
)

pytestmark = pytest.mark.anyio

THREE = "10.0.0.1:9000,10.0.0.2:9000,10.0.0.3:9000"
LORA = {"items": [], "params": {"options": {"lora": "org/lora"}}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def kinds(messages) -> list[str]:
    return [one.WhichOneof("response") for one in messages]


async def test_a_request_without_a_body_goes_by_its_path():
    picks = NotingPicks()
    (answer,) = await exchange(picks).answer(head("/v1/models", method="GET", is_end=True))
    assert destination(answer) == THREE
    assert answer.request_headers.response.clear_route_cache
    assert picks.wants == [Want()]


@pytest.mark.parametrize("mode", [MODES.NONE, MODES.STREAMED])
async def test_where_no_body_is_to_be_had_the_path_is_enough(mode):
    picks = NotingPicks()
    one = exchange(picks)
    (answer,) = await one.answer(head("/v1/encode/org%2Fm?x=1", mode=mode, x_sie_pool="l4"))
    assert destination(answer) == THREE
    assert picks.wants == [Want("org/m", pool="l4")]
    assert kinds(await one.answer(body(LORA))) == ["request_body"]
    assert len(picks.wants) == 1


async def test_a_buffered_body_says_the_rest():
    picks = NotingPicks()
    one = exchange(picks)
    (first,) = await one.answer(head("/v1/encode/org/m"))
    assert first.WhichOneof("response") == "request_headers"
    assert not first.request_headers.response.HasField("header_mutation")
    (second,) = await one.answer(body(LORA))
    assert second.WhichOneof("response") == "request_body"
    assert destination(second) == THREE
    assert picks.wants == [Want("org/m", "org/lora")]


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/rerank"])
async def test_a_model_is_read_from_a_body_that_comes_in_parts(path):
    picks = NotingPicks()
    one = exchange(picks)
    mode = MODES.FULL_DUPLEX_STREAMED
    content = b'{"model": "org/m", "input": "' + b"x" * (2 * MAX_PART_BYTES) + b'"}'
    assert await one.answer(head(path, mode=mode)) == []
    assert await one.answer(body(content[:100_000], is_end=False)) == []
    answers = await one.answer(body(content[100_000:]))
    assert kinds(answers) == ["request_headers", "request_body", "request_body", "request_body"]
    assert destination(answers[0]) == THREE
    assert sent_on(answers) == (content, True)
    assert picks.wants == [Want("org/m")]


async def test_of_a_large_body_the_beginning_is_enough_where_the_path_has_the_model():
    picks = NotingPicks()
    one = exchange(picks)
    await one.answer(head("/v1/encode/org/m", mode=MODES.FULL_DUPLEX_STREAMED))
    start = b"[" * (MAX_READ_BYTES + 1)
    answers = await one.answer(body(start, is_end=False))
    assert destination(answers[0]) == THREE
    assert sent_on(answers) == (start, False)
    assert sent_on(await one.answer(body(b"rest", is_end=True))) == (b"rest", True)
    assert len(picks.wants) == 1


async def test_trailers_end_a_body_too():
    picks = NotingPicks()
    one = exchange(picks)
    await one.answer(head("/v1/embeddings", mode=MODES.FULL_DUPLEX_STREAMED))
    await one.answer(body({"model": "org/m"}, is_end=False))
    trailers = body(b"")
    trailers.request_trailers.SetInParent()
    answers = await one.answer(trailers)
    assert kinds(answers) == ["request_headers", "request_body", "request_trailers"]
    assert sent_on(answers) == (b'{"model": "org/m"}', False)
    assert picks.wants == [Want("org/m")]


@pytest.mark.parametrize("name", ["x-gateway-model-name", "mcp-param-model"])
async def test_a_header_says_the_model_before_any_body(name):
    picks = NotingPicks()
    message = head("/v1/embeddings", **{name: "org/m"})
    (answer,) = await exchange(picks).answer(message)
    assert destination(answer) == THREE
    assert picks.wants == [Want("org/m")]


async def test_a_body_that_is_no_json_is_the_workers_to_refuse():
    picks = NotingPicks()
    one = exchange(picks)
    await one.answer(head("/v1/embeddings"))
    (answer,) = await one.answer(body(b"{no"))
    assert destination(answer) == THREE
    assert picks.wants == [Want("auto")]


@pytest.mark.parametrize(
    "subset", [["10.0.0.1:9000", "10.0.0.2:9000"], "10.0.0.1:9000, 10.0.0.2:9000"]
)
async def test_the_subset_that_a_proxy_names_is_kept_to(subset):
    picks = NotingPicks()
    await exchange(picks).answer(head("/v1/encode/m", mode=MODES.NONE, subset=subset))
    assert picks.wants[0].among == {A, B}


async def test_an_empty_subset_is_not_the_same_as_none():
    picks = NotingPicks()
    await exchange(picks).answer(head("/v1/encode/m", mode=MODES.NONE, subset=[]))
    assert picks.wants[0].among == frozenset()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (WorkerUnavailable("nobody", retry_after_s=10.0), 503),
        (QueueFull("too many"), 429),
        (InvalidInput("no pool 'x'"), 400),
    ],
)
async def test_without_a_worker_the_proxy_answers_by_itself(error, status):
    picks = NotingPicks(error=error)
    one = exchange(picks)
    (answer,) = await one.answer(head("/v1/encode/m", mode=MODES.NONE))
    assert one.is_refused
    refused = answer.immediate_response
    assert refused.status.code == status
    assert str(error) in refused.body.decode()
    headers = set_headers(answer)
    assert headers["x-sie-error-code"] == error.code
    assert ("retry-after" in headers) == error.retryable
    await one.end()
    assert picks.ended == []


async def test_a_body_over_the_limit_is_refused_and_let_go_of():
    one = exchange(NotingPicks(), limit=10)
    await one.answer(head("/v1/embeddings", mode=MODES.FULL_DUPLEX_STREAMED))
    assert await one.answer(body(b"123456", is_end=False)) == []
    (answer,) = await one.answer(body(b"123456", is_end=False))
    assert answer.immediate_response.status.code == 413
    await one.end()
    assert one._buffers.held_bytes == 0


async def test_bodies_of_all_requests_together_have_a_limit():
    first = exchange(NotingPicks(), limit=10)
    first._buffers.held_bytes = 15
    await first.answer(head("/v1/embeddings", mode=MODES.FULL_DUPLEX_STREAMED))
    (answer,) = await first.answer(body(b"123456", is_end=False))
    assert answer.immediate_response.status.code == 429


async def test_what_workers_trust_is_said_by_the_picker_alone():
    rules = Rules(worker_key="secret")
    message = head("/v1/encode/m", mode=MODES.NONE, x_sie_local_models="yes", authorization="x")
    (answer,) = await exchange(NotingPicks(), rules).answer(message)
    headers = set_headers(answer)
    assert headers["x-sie-local-models"] == "no"
    assert headers["authorization"] == "Bearer secret"
    removed = list(answer.request_headers.response.header_mutation.remove_headers)
    assert removed == ["x-api-key", "cookie"]
    (plain,) = await exchange(NotingPicks()).answer(message)
    assert "authorization" in plain.request_headers.response.header_mutation.remove_headers


@pytest.mark.parametrize(
    "path", ["/metrics", "/v2/x", "/", "/v1/models/m/load", "/v1/%6dodels/m/pin"]
)
async def test_what_is_not_for_callers_is_refused(path):
    picks = NotingPicks()
    (answer,) = await exchange(picks).answer(head(path))
    assert answer.immediate_response.status.code == 403
    assert picks.wants == []


async def test_models_may_be_moved_where_that_is_set():
    picks = NotingPicks()
    await exchange(picks, Rules(allows_control=True)).answer(
        head("/v1/models/org%2Fm/load", mode=MODES.NONE)
    )
    assert picks.wants == [Want("org/m")]


async def given(picks: NotingPicks, mode: int = MODES.NONE):
    one = exchange(picks)
    await one.answer(head("/v1/encode/m", mode=mode, is_end=True))
    return one


OURS = {"x_sie_server_version": "1"}


@pytest.mark.parametrize(
    ("status", "headers", "ended"),
    [
        (200, OURS, "done"),
        (500, OURS, "done"),
        (503, {**OURS, "x_sie_error_code": "MODEL_LOADING"}, "done"),
        (503, {**OURS, "x_sie_error_code": "WORKER_UNAVAILABLE"}, "lost"),
        (503, {**OURS, "x_sie_error_code": "WORKER_LOST"}, "lost"),
        # The proxy's own words: nobody answered it.
        (503, {}, "lost"),
        (502, {}, "lost"),
        # Busy for too long is not gone.
        (504, {}, "done"),
    ],
)
async def test_an_answer_says_whether_the_worker_was_there(status, headers, ended):
    picks = NotingPicks()
    one = await given(picks)
    (answer,) = await one.answer(response(status, **headers))
    assert answer.WhichOneof("response") == "response_headers"
    await one.end()
    assert picks.ended == [ended]


@pytest.mark.parametrize("told_by", ["metadata", "attribute"])
@pytest.mark.parametrize(("host", "ended"), [("10.0.0.1:9000", "done"), ("10.0.0.2:9000", "lost")])
async def test_an_answer_of_another_worker_means_that_the_first_was_not_there(told_by, host, ended):
    picks = NotingPicks()
    one = await given(picks)
    message = response(200, **OURS)
    if told_by == "metadata":
        message.metadata_context.filter_metadata[BALANCING].update({SERVED: host})
    else:
        message.attributes["envoy.filters.http.ext_proc"].update({"upstream.address": host})
    await one.answer(message)
    await one.end()
    assert picks.ended == [ended]


async def test_a_request_counts_until_its_answer_has_ended():
    picks = NotingPicks()
    one = await given(picks, MODES.FULL_DUPLEX_STREAMED)
    await one.answer(response(200, x_sie_model="org/m", **OURS))
    assert picks.learnt == ["org/m"]
    part = body(b"")
    part.response_body.body = b"half"
    assert sent_on(await one.answer(part), "response_body") == (b"half", False)
    assert picks.ended == []
    part.response_body.end_of_stream = True
    assert sent_on(await one.answer(part), "response_body") == (b"half", True)
    assert picks.ended == ["done"]
    await one.end()
    assert picks.ended == ["done"]


@pytest.mark.parametrize("how", ["headers", "trailers", "cut"])
async def test_an_answer_ends_with_its_headers_its_trailers_or_the_stream(how):
    picks = NotingPicks()
    one = await given(picks)
    if how == "headers":
        await one.answer(response(200, is_end=True, **OURS))
    elif how == "trailers":
        message = body(b"")
        message.response_trailers.SetInParent()
        (answer,) = await one.answer(message)
        assert answer.WhichOneof("response") == "response_trailers"
    else:
        await one.end()
    assert picks.ended == ["done"]
