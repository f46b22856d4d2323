"""When a worker on the network says that it is ready: once what it preloads is up, or cannot be."""

import httpx2
import pytest

from sie_mcp.config import Config
from sie_mcp.errors import ModelLoadFailed
from tests.engine.conftest import play, until
from tests.servers import serving
from tests.toy_worker import make_worker
from tests.toys import ToyLoader


@pytest.mark.parametrize("setting", ["preload", "pinned"])
def test_a_worker_is_ready_when_what_it_preloads_is_up_and_answers_before(tmp_path, setting):
    async def scenario():
        loader = ToyLoader()
        loader.gate.clear()
        config = Config(cache_dir=tmp_path, **{setting: ("a", "b")})
        worker = make_worker(config, loader)
        async with serving(worker.app) as url, httpx2.AsyncClient(base_url=url) as http:
            early = await http.get("/readyz")
            assert (early.status_code, early.json()) == (503, {"status": "preloading"})
            assert (await http.get("/healthz")).status_code == 200
            assert (await http.get("/v1/memory")).status_code == 200
            loader.gate.set()
            answer = await http.post("/v1/encode/b", json={"items": [{"text": "x"}]})
            assert answer.status_code == 200
            await until(lambda: loader.loads == ["a", "b"] or loader.loads == ["b", "a"])
            while (await http.get("/readyz")).status_code != 200:
                pass  # Each look gives the loop to the load; the test has a limit.

    play(scenario)


def test_what_cannot_be_had_keeps_no_worker_from_being_ready(tmp_path):
    async def scenario():
        loader = ToyLoader(errors={"broken": [ModelLoadFailed("a file is cut short")]})
        config = Config(cache_dir=tmp_path, preload=("missing", "broken", "whole"))
        worker = make_worker(config, loader)
        async with serving(worker.app) as url, httpx2.AsyncClient(base_url=url) as http:
            while (await http.get("/readyz")).status_code != 200:
                pass
            held = (await http.get("/v1/memory")).json()["devices"][0]["models"]
            assert [one["name"] for one in held] == ["whole"]

    play(scenario)
