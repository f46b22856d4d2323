"""The console in a real browser: what it shows, tools that are tried, keys, small and dark."""

import asyncio
import json

import pytest

from sie_mcp.config import Config
from sie_mcp.errors import ModelLoading
from tests.access.conftest import KeyFile
from tests.cluster.conftest import cluster
from tests.gateway.console.browser import need_browser, page_of
from tests.gateway.front import CALL, gateway
from tests.scripted_worker import fails_with, until
from tests.servers import serving
from tests.toy_worker import make_worker
from tests.toys import ToyLoader

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def browser() -> None:
    need_browser()


async def seen(page, selector: str, text: str) -> None:
    """Wait for a text to be somewhere."""
    await page.locator(selector).filter(has_text=text).first.wait_for()


async def test_workers_and_models_are_shown_and_followed(tmp_path):
    worker = make_worker(Config(cache_dir=tmp_path), ToyLoader())
    async with (
        serving(worker.app) as url,
        gateway(worker_url=url) as front,
        page_of(front.url) as page,
    ):
        await seen(page, "#status", "Connected.")
        await seen(page, "#pools", "1 of 1 ready")
        await seen(page, "#models", "None is up.")
        await front.http.post("/v1/encode/toy", json={"items": [{"text": "x"}]})
        await seen(page, "#models tr", "toy")
        row = await page.locator("#models tr").first.inner_text()
        assert "loaded" in row and "worker, worker 1, cpu" in row
        meter = page.locator("#pools meter").first
        assert (
            0 < float(await meter.get_attribute("value")) <= float(await meter.get_attribute("max"))
        )
        await seen(page, "#figures", "tool calls/s")
        assert "in the catalogue only" in await page.locator("#cold-title").inner_text()


async def test_pools_show_what_runs_and_waits(tmp_path):
    async with cluster(tmp_path, 2) as found:
        urls = ",".join(one.url for one in found.workers)
        async with gateway(worker_url=None, workers=urls) as front, page_of(front.url) as page:
            await seen(page, "#pools", "2 of 2 ready, 0 running, 0 waiting")
            await found.workers[0].stop()
            await seen(page, "#pools", "1 of 2 ready")


async def test_a_tool_is_called_by_the_form_made_of_its_schema():
    async with gateway() as front, page_of(front.url) as page:
        await page.select_option("#tool", "rerank")
        await page.get_by_label("query (needed)").fill("q")
        await page.get_by_label("documents", exact=True).fill("0.1\n0.9")
        await page.get_by_text("More arguments").click()
        await page.get_by_label("top_k").fill("1")
        await page.get_by_label("model", exact=True).fill(CALL["model"])
        await page.keyboard.press("Enter")
        await seen(page, "#outcome", "Done in")
        result = json.loads(await page.locator("#result").inner_text())
        assert [one["index"] for one in result["results"]] == [1]
        await page.get_by_label("text", exact=True).check()
        assert json.loads(await page.locator("#result").inner_text()) == result
        assert "\n" not in await page.locator("#result").inner_text()


async def test_progress_of_a_load_is_read_from_the_stream():
    async with gateway(load_wait_s=30) as front, page_of(front.url) as page:
        await page.select_option("#tool", "rerank")
        front.worker.script = [fails_with(ModelLoading("loading toy: 40 %"))] * 2
        await page.evaluate(
            """new MutationObserver(() => (window.heard ??= []).push(
                document.getElementById("outcome").textContent
            )).observe(document.getElementById("outcome"), {childList: true})"""
        )
        await page.get_by_label("query (needed)").fill("q")
        await page.get_by_label("documents", exact=True).fill('["0.1", "0.9"]')
        await page.click("#run")
        await seen(page, "#outcome", "Done in")
        assert any("loading toy: 40 %" in one for one in await page.evaluate("window.heard"))


async def test_cancel_hangs_up_which_ends_the_work_and_the_next_call_goes():
    async with gateway() as front, page_of(front.url) as page:
        await page.select_option("#tool", "rerank")
        front.worker.script = [front.worker.hold(asyncio.Event())]
        await page.get_by_label("query (needed)").fill("q")
        await page.get_by_label("documents", exact=True).fill("0.1\n0.9")
        await page.click("#run")
        await until(lambda: len(front.worker.seen) == 1)
        await page.click("#cancel")
        await seen(page, "#outcome", "Cancelled.")
        await until(lambda: front.worker.num_hung_up == 1)
        await page.click("#run")
        await seen(page, "#outcome", "Done in")


async def test_what_is_missing_or_wrong_is_said_at_its_field():
    async with gateway() as front, page_of(front.url) as page:
        await page.select_option("#tool", "rerank")
        await page.click("#run")
        await seen(page, "#outcome", "query: is needed")
        field = page.get_by_label("query (needed)")
        assert await field.get_attribute("aria-invalid") == "true"
        assert await field.evaluate("one => one === document.activeElement")
        await field.fill("q")
        await page.click("#run")
        await seen(page, "#outcome", "Failed after")
        assert front.worker.seen == []


async def test_texts_of_others_are_no_markup():
    async with gateway() as front, page_of(front.url) as page:
        await page.select_option("#tool", "rerank")
        await page.get_by_label("query (needed)").fill("q")
        await page.get_by_label("documents", exact=True).fill("<img src=x onerror=alert(1)>\n0.9")
        await page.get_by_text("More arguments").click()
        await page.get_by_label("return_text").check()
        await page.click("#run")
        await seen(page, "#result", "<img src=x")
        assert await page.locator("#result img").count() == 0


async def test_a_key_is_asked_for_kept_for_the_tab_and_forgotten(tmp_path):
    keys = KeyFile(tmp_path / "keys.toml")
    key = keys.add("one", tools=["embed"])
    async with (
        gateway(auth="api-key", api_keys_file=keys.path) as front,
        page_of(front.url) as page,
    ):
        await seen(page, "#status", "401")
        assert await page.locator("#pools").inner_text() == ""
        field = page.get_by_label("API key or token")
        await field.fill(key)
        await field.press("Enter")
        await seen(page, "#status", "Connected.")
        await page.locator("#tool option").first.wait_for(state="attached")
        assert await page.locator("#tool option").all_inner_texts() == ["embed"]
        assert await field.input_value() == ""
        await page.reload()
        await seen(page, "#status", "Connected.")
        assert await page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        await page.click("#forget")
        await seen(page, "#status", "401")
        assert await page.locator("#tool option").count() == 0
        assert await page.locator("#pools").inner_text() == ""
        assert await page.evaluate("sessionStorage.length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_narrow_page_does_not_scroll_sideways_and_can_be_read(tmp_path, scheme):
    worker = make_worker(Config(cache_dir=tmp_path), ToyLoader())
    size = {"width": 400, "height": 800}
    async with serving(worker.app) as url, gateway(worker_url=url, tools="all") as front:
        await front.http.post("/v1/encode/toy", json={"items": [{"text": "x"}]})
        async with page_of(front.url, viewport=size, color_scheme=scheme) as page:
            await seen(page, "#models tr", "toy")
            for tool in await page.locator("#tool option").all_inner_texts():
                await page.select_option("#tool", tool)
                assert await page.evaluate("document.documentElement.scrollWidth") <= 400
            colours = await page.evaluate(
                "(({color, backgroundColor}) => [color, backgroundColor])"
                "(getComputedStyle(document.body))"
            )
            ink, paper = (luminance(one) for one in colours)
            assert (ink > paper) == (scheme == "dark")
            assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 7


async def test_every_control_has_a_name_and_can_be_reached_by_keyboard():
    async with gateway(tools="all") as front, page_of(front.url) as page:
        await page.locator("#tool option").first.wait_for(state="attached")
        for tool in await page.locator("#tool option").all_inner_texts():
            await page.select_option("#tool", tool)
            nameless = await page.evaluate(
                """[...document.querySelectorAll("input, select, textarea, button")]
                .filter((one) => !(one.labels?.length || one.textContent.trim()))
                .map((one) => one.outerHTML)"""
            )
            assert nameless == []
        await page.evaluate("document.activeElement.blur()")
        reached = set()
        for _ in range(8):
            await page.keyboard.press("Tab")
            reached.add(await page.evaluate("document.activeElement.id"))
        assert {"key", "forget", "cold-title", "tool"} <= reached


def luminance(colour: str) -> float:
    """Return the relative luminance of `rgb(r, g, b)` as WCAG counts it."""
    parts = [int(one) / 255 for one in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
