"""Ids of requests in headers, answers, logs and at the worker; figures of each tool."""

import logging

import pytest
from mcp import Client

from sie_mcp import metrics, request_ids, tracing
from sie_mcp.engine.http import route
from sie_mcp.errors import SettingError
from sie_mcp.setting_types import wants_traces
from tests.gateway.front import CALL, ITEMS, gateway, raw_call

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
async def test_an_id_goes_through_to_the_worker_and_back(front, version, caplog):
    call = raw_call(version)
    call["headers"]["X-Request-Id"] = "abc-1"
    caplog.handler.addFilter(request_ids.note)
    try:
        with caplog.at_level(logging.DEBUG, "sie_mcp"):
            answer = await front.http.post("/mcp", **call)
    finally:
        caplog.handler.removeFilter(request_ids.note)
    assert answer.headers["x-request-id"] == "abc-1"
    lines = [one for one in caplog.records if one.message.startswith("tool call tool=rerank")]
    assert [one.request for one in lines] == [" request=abc-1"]
    answer = await front.http.post("/v1/encode/toy", json=ITEMS, headers={"X-Request-Id": "abc-2"})
    assert answer.headers["x-request-id"] == "abc-2"
    assert {seen.headers["x-request-id"] for seen in front.worker.seen} == {"abc-1", "abc-2"}


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 65, "a\tb", 'a"b', "{}"])
async def test_an_id_that_would_not_fit_a_log_is_replaced(front, given):
    headers = {} if given is None else {"X-Request-Id": given}
    answer = await front.http.post("/v1/encode/toy", json=ITEMS, headers=headers)
    made = answer.headers["x-request-id"]
    assert made != given
    assert front.worker.seen[0].headers["x-request-id"] == made
    again = await front.http.post("/v1/encode/toy", json=ITEMS, headers=headers)
    assert again.headers["x-request-id"] != made


async def test_refusals_have_an_id_too(one_minute):
    async with gateway(requests_per_minute=1) as front:
        for _ in range(2):
            answer = await front.http.get("/v1/models")
    assert answer.status_code == 429
    assert answer.headers["x-request-id"]


async def test_outside_of_a_request_there_is_none():
    assert request_ids.current() == ""
    assert callable(route)


def figure(name: str, tool: str = "rerank") -> float:
    return metrics.REGISTRY.get_sample_value(name, {"tool": tool}) or 0.0


async def test_each_tool_counts_items_and_what_an_agent_reads(front):
    names = ("sie_tool_items_total", "sie_tool_tokens_total", "sie_tool_answer_tokens_count")
    before = [figure(name) for name in names]
    read = figure("sie_tool_answer_tokens_sum")
    async with Client(f"{front.url}/mcp") as client:
        result = await client.call_tool("rerank", CALL)
    after = [figure(name) for name in names]
    assert [new - old for new, old in zip(after, before, strict=True)] == [2, 2, 1]
    assert figure("sie_tool_answer_tokens_sum") - read == len(result.content[0].text) // 4


async def test_names_that_a_caller_makes_up_are_one_label(front):
    async with Client(f"{front.url}/mcp") as client:
        for number in range(3):
            await client.call_tool(f"made_up_{number}", {})
    page = (await front.http.get("/metrics")).text
    assert "made_up" not in page
    assert 'tool="other"' in page


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_tracing_starts_where_the_variables_say(variables, wanted):
    assert wants_traces(variables) is wanted


@pytest.mark.parametrize(("mode", "wanted"), [("off", True), ("auto", False)])
def test_tracing_that_is_off_makes_and_loads_nothing(mode, wanted, monkeypatch):
    monkeypatch.setattr(tracing.importlib, "import_module", None)
    tracing.start_tracing("s", mode, is_wanted=wanted)
    headers: dict[str, str] = {}
    # The same object for all: nothing is made a call.
    assert tracing.span("a", items=1) is tracing.span("b")
    with tracing.span("a"), tracing.attached({"traceparent": "x"}):
        tracing.inject(headers)
        tracing.annotate(items=1)
        tracing.past_span("c", 0.0, 1.0)
    assert headers == {}
    assert tracing.here() is None
    assert not tracing.is_on()


def test_tracing_that_must_start_and_cannot_stops_the_start(monkeypatch, caplog):
    def missing(_: str) -> None:
        raise ModuleNotFoundError("no", name="opentelemetry.sdk")

    monkeypatch.setattr(tracing.importlib, "import_module", missing)
    with pytest.raises(SettingError, match=r"sie-mcp\[otel\].*opentelemetry.sdk"):
        tracing.start_tracing("s", "on", is_wanted=False)
    tracing.start_tracing("s", "auto", is_wanted=True)
    assert "sie-mcp[otel]" in caplog.text
