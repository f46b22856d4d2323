"""Vectors that a gateway knows: which items a worker still sees, and when none is believed."""

import asyncio
from contextlib import asynccontextmanager

import httpx2
import pytest
from starlette.responses import Response

from sie_mcp import metrics, wire
from sie_mcp.codec import MSGPACK, decode_body, encode_body
from sie_mcp.errors import QueueFull
from tests.gateway.front import gateway
from tests.scripted_worker import fails_with

pytestmark = pytest.mark.anyio
LARGE = 10_000_000


class Revised:
    """A worker's step: answers as ever, under a revision that can change; long texts are cut."""

    def __init__(self) -> None:
        self.revision: str | None = "one"
        self.asked: list[list[str]] = []
        self.num_checks = 0
        self.failing: set[str] = set()

    async def __call__(self, request) -> Response:
        headers = {} if self.revision is None else {"X-SIE-Model-Revision": self.revision}
        model = request.path_params["model"]
        if request.url.path.startswith("/v1/revision/"):
            self.num_checks += 1
            body = wire.Revision(model="toy", revision=self.revision)
            return Response(encode_body(body, MSGPACK), media_type=MSGPACK)
        sent = decode_body(await request.body(), request.headers["content-type"])
        texts = [one["text"] for one in sent["items"]]
        self.asked.append(texts)
        items = [self._item(one) for one in sent["items"]]
        usage = wire.Usage(input_tokens=sum(one.num_tokens for one in items))
        answer = wire.EncodeResponse(model=model, items=items, usage=usage)
        accepted = request.headers.get("accept", MSGPACK)
        kind = MSGPACK if MSGPACK in accepted else "application/json"
        return Response(encode_body(answer, kind), 200, headers, kind)

    def _item(self, given) -> wire.EncodedItem:
        text, name = given["text"], given.get("id")
        if text in self.failing:
            error = wire.ItemError(code="INVALID_INPUT", message="not this one")
            return wire.EncodedItem(id=name, error=error)
        values = [float(len(text)), float(len(self.revision or ""))]
        dense = wire.Dense(dims=2, values=values)
        cut = text.startswith("long")
        return wire.EncodedItem(id=name, dense=dense, num_tokens=len(text), truncated=cut)


@asynccontextmanager
async def caching(tmp_path, **settings):
    own = {"embedding_cache_bytes": LARGE, "embedding_cache_file": tmp_path / "vectors"}
    worker = Revised()
    async with gateway(**(own | settings)) as front:
        front.worker.always = worker
        yield front, worker


async def encode(front, *texts: str, **more):
    body = {"items": [{"id": f"n{place}", "text": one} for place, one in enumerate(texts)]}
    answer = await front.http.post("/v1/encode/toy", json=body | more.pop("body", {}), **more)
    assert answer.status_code == 200, answer.text
    return answer


async def test_only_missing_items_go_to_a_worker_and_the_order_stays(tmp_path):
    async with caching(tmp_path) as (front, worker):
        first = await encode(front, "a", "long text")
        assert first.headers["x-sie-cache"] == "hits=0, misses=2"
        answer = await encode(front, "bbb", "long text", "cc", "a")
        assert worker.asked == [["a", "long text"], ["bbb", "cc"]]
        assert answer.headers["x-sie-cache"] == "hits=2, misses=2"
        body = answer.json()
        assert [one["id"] for one in body["items"]] == ["n0", "n1", "n2", "n3"]
        assert [one["dense"]["values"][0] for one in body["items"]] == [3, 9, 2, 1]
        assert [one["truncated"] for one in body["items"]] == [False, True, False, False]
        assert body["usage"]["input_tokens"] == 3 + 9 + 2 + 1
        assert answer.headers["x-sie-units-input-tokens"] == "15"
        assert answer.headers["x-sie-truncated-items"] == "1"
        assert worker.num_checks == 0, "what came says of what revision it is"


async def test_what_is_known_whole_is_answered_once_a_worker_names_the_revision(tmp_path):
    async with caching(tmp_path) as (front, worker):
        first = await encode(front, "a", "b")
        again = await encode(front, "a", "b")
        assert again.headers["x-sie-cache"] == "hits=2, misses=0"
        assert again.json()["items"] == first.json()["items"]
        assert again.headers["x-sie-model-revision"] == "one"
        assert (len(worker.asked), worker.num_checks) == (1, 1)
    async with caching(tmp_path) as (front, worker):
        # A gateway that starts knows no revision before a worker has named it.
        await encode(front, "z")
        assert (await encode(front, "a", "b")).headers["x-sie-cache"] == "hits=2, misses=0"


async def test_a_changed_revision_never_has_old_vectors(tmp_path):
    async with caching(tmp_path) as (front, worker):
        await encode(front, "a", "b")
        worker.revision = "other"
        assert [
            one["dense"]["values"][1] for one in (await encode(front, "a")).json()["items"]
        ] == [5]
        worker.revision = "a third one"
        mixed = await encode(front, "b", "c", "a")
        assert [one["dense"]["values"][1] for one in mixed.json()["items"]] == [11, 11, 11]
        assert mixed.headers["x-sie-model-revision"] == "a third one"
        worker.revision = "one"
        assert [
            one["dense"]["values"][1] for one in (await encode(front, "b")).json()["items"]
        ] == [3]


async def test_nothing_is_kept_of_a_model_whose_revision_is_not_known(tmp_path):
    async with caching(tmp_path) as (front, worker):
        worker.revision = None
        await encode(front, "a")
        assert (await encode(front, "a")).headers["x-sie-cache"] == "hits=0, misses=1"
        worker.revision = "one"
        await encode(front, "a")
        worker.revision = None
        assert (await encode(front, "a")).headers["x-sie-cache"] == "hits=0, misses=1"


@pytest.mark.parametrize(
    "params",
    [
        {"options": {"is_query": True}},
        {"options": {"dimensions": 1}},
        {"options": {"lora": "org/name"}},
        {"options": {"prompt": "x"}},
        {"output_dtype": "int8"},
        {"output_types": ["dense"]},
        {"instruction": "x"},
    ],
)
async def test_another_parameter_is_another_vector(tmp_path, params):
    async with caching(tmp_path) as (front, _):
        await encode(front, "a")
        for hits in (0, 1):
            answer = await encode(front, "a", body={"params": params})
            assert answer.headers["x-sie-cache"].startswith(f"hits={hits},")


async def test_a_header_with_a_side_is_another_vector(tmp_path):
    async with caching(tmp_path) as (front, _):
        await encode(front, "a")
        side = {"X-SIE-Input-Type": "query"}
        assert (await encode(front, "a", headers=side)).headers["x-sie-cache"].startswith("hits=0")
        body = {"params": {"options": {"is_query": True}}}
        assert (await encode(front, "a", body=body)).headers["x-sie-cache"].startswith("hits=1")


async def test_an_item_that_failed_is_not_kept(tmp_path):
    async with caching(tmp_path) as (front, worker):
        worker.failing = {"bad"}
        for misses in (2, 1):
            answer = await encode(front, "a", "bad")
            assert answer.headers["x-sie-cache"].endswith(f"misses={misses}")
            assert answer.json()["items"][1]["error"]["message"] == "not this one"
        worker.failing = set()
        assert "error" not in (await encode(front, "bad")).json()["items"][0]


async def test_a_callers_words_pass_the_cache_by(tmp_path):
    async with caching(tmp_path) as (front, worker):
        await encode(front, "a", headers={"Cache-Control": "no-store"})
        assert (await encode(front, "a")).headers["x-sie-cache"] == "hits=0, misses=1"
        anew = await encode(front, "a", headers={"Cache-Control": "no-cache"})
        assert anew.headers["x-sie-cache"] == "hits=0, misses=1"
        passed = await encode(front, "a", headers={"Cache-Control": "no-store"})
        assert "x-sie-cache" not in passed.headers
        assert worker.asked == [["a"]] * 4


async def test_a_refusal_is_the_workers_own_for_the_whole_request(tmp_path):
    async with caching(tmp_path) as (front, _):
        await encode(front, "a")
        wrong = await front.http.post("/v1/embeddings", json={"model": "toy", "input": []})
        assert "x-sie-cache" not in wrong.headers
        asked = len(front.worker.seen)
        front.worker.script = [fails_with(QueueFull("the queue is full"), retry_after="7")]
        answer = await front.http.post("/v1/embeddings", json={"model": "toy", "input": ["a", "b"]})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
        assert answer.json()["error"]["type"] == "server_error"
        assert len(front.worker.seen) == asked + 1


async def test_figures_count_hits_and_misses(tmp_path):
    def counted():
        return [metrics.CACHE_ITEMS.labels(one)._value.get() for one in ("hit", "miss")]

    async with caching(tmp_path) as (front, _):
        hits, misses = counted()
        await encode(front, "a", "b")
        await asyncio.gather(*(encode(front, "a", "b", "c") for _ in range(3)))
        now_hits, now_misses = counted()
        assert now_hits - hits + now_misses - misses == 11
        assert now_hits - hits >= 6


async def test_without_the_setting_nothing_is_kept():
    async with gateway() as front:
        front.worker.always = worker = Revised()
        for _ in range(2):
            assert "x-sie-cache" not in (await encode(front, "a")).headers
        assert worker.asked == [["a"], ["a"]]


async def test_a_damaged_file_costs_hits_and_no_answer(tmp_path):
    async with caching(tmp_path) as (front, _):
        await encode(front, "a")
        for file in tmp_path.glob("vectors*"):
            file.write_bytes(b"no database" * 1_000)
        for _ in range(3):
            answer = await encode(front, "a")
            assert answer.json()["items"][0]["dense"]["values"] == [1, 3]
        assert isinstance(answer, httpx2.Response)
