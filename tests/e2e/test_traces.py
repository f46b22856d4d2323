"""One trace from a tool call over the gateway to the worker's queue, batch and forward pass."""

import sys

import httpx2
import pytest

from tests.e2e.collector import Collector, attributes
from tests.e2e.conftest import environment, gateway, serving
from tests.gateway.front import raw_call
from tests.scripted_worker import until
from tests.servers import serving as serving_here

pytestmark = pytest.mark.anyio
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SECRET = "a text that no span may hold"


@pytest.fixture
async def collector():
    made = Collector()
    async with serving_here(made.app()) as url:
        made.url = url
        yield made


@pytest.fixture
def traced(collector, folder, monkeypatch):
    """The URL of a gateway in front of a toy worker, both sending their spans."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    command = [sys.executable, "-m", "tests.toy_worker"]
    with (
        serving(command, environment(folder), folder / "worker.log") as (worker_url, _),
        gateway(folder, worker_url) as (url, _),
    ):
        yield url


@pytest.mark.parametrize("place", ["meta", "header"])
@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
async def test_a_tool_call_is_one_trace_down_to_the_batch(traced, collector, place, version):
    call = raw_call(version, query=SECRET)
    if place == "meta":
        call["json"]["params"]["_meta"]["traceparent"] = TRACEPARENT
    else:
        call["headers"]["traceparent"] = TRACEPARENT
    async with httpx2.AsyncClient(base_url=traced, timeout=30) as http:
        assert (await http.post("/mcp", **call)).status_code == 200
    await until(lambda: {"tools/call rerank", "run", "batch"} <= names(collector))
    # The worker's own span ends last.
    await until(lambda: bool({"encode", "score"} & names(collector)))
    (tool,) = collector.named("tools/call rerank")
    assert tool.trace_id.hex() == TRACE
    assert tool.parent_span_id.hex() == PARENT
    seen = attributes(tool)
    assert seen["sie.tool"] == "rerank"
    assert seen["sie.outcome"] == "ok"
    assert seen["sie.items"] >= 2
    assert "sie.tokens" in seen
    assert seen["sie.answer_tokens"] > 0
    children_of_one_trace(collector, "encode" if any(collector.named("encode")) else "score")
    assert not any(SECRET.encode() in body for body in collector.bodies)


async def test_a_request_to_v1_is_one_trace_too(traced, collector):
    async with httpx2.AsyncClient(base_url=traced, timeout=30) as http:
        answer = await http.post(
            "/v1/encode/toy",
            json={"items": [{"text": SECRET}]},
            headers={"traceparent": TRACEPARENT},
        )
        assert answer.status_code == 200
    await until(lambda: {"POST /v1", "encode", "run", "batch"} <= names(collector))
    (door,) = collector.named("POST /v1")
    assert door.parent_span_id.hex() == PARENT
    worker = children_of_one_trace(collector, "encode")
    assert worker.parent_span_id == door.span_id
    assert attributes(worker)["sie.model"] == "toy"
    assert attributes(worker)["sie.tokens"] > 0
    assert not any(SECRET.encode() in body for body in collector.bodies)


def names(collector: Collector) -> set[str]:
    """Return the names of the spans that have come in."""
    return {span.name for _, span in collector.spans}


def children_of_one_trace(collector: Collector, name: str):
    """Check the worker's spans of a request; return the one around them."""
    worker = next(iter(collector.named(name)))
    services = {service for service, span in collector.spans if span.trace_id.hex() == TRACE}
    assert services == {"sie-mcp-gateway", "sie-mcp-worker"}
    for part in ("load", "tokenise", "queue", "run"):
        found = [one for one in collector.named(part) if one.parent_span_id == worker.span_id]
        assert found, part
        assert found[0].start_time_unix_nano <= found[0].end_time_unix_nano
        assert found[0].trace_id.hex() == TRACE
    linked = {link.span_id for span in collector.named("batch") for link in span.links}
    assert worker.span_id in linked
    return worker
