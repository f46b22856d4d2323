"""Moving models that there are none of: refused with near names, by the worker and a gateway."""

import httpx2
import pytest
import torch

from sie_mcp.catalogue.entries import Catalogue, Entry, Source
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.config import Config
from sie_mcp.engine.main import build_worker
from sie_mcp.engine.registry import Registry
from sie_mcp.gateway.app import build_app
from tests.engine.conftest import play
from tests.servers import serving
from tests.tiny import write_json
from tests.toys import ToyLoader

CATALOGUE = Catalogue(
    models=tuple(
        Entry(name=name, tasks=("dense",), sources=(Source(kind="path", path="/nowhere"),))
        for name in ("bge-small", "bge-large", "gte-base")
    )
)
VERBS = ("load", "unload", "pin", "unpin")


def asking(tmp_path, ask):
    """Ask a worker of toys, and a gateway before it that lets callers move models."""

    async def scenario():
        config = Config(cache_dir=tmp_path, device="cpu", memory_budget="2MiB", max_batch_tokens=1)
        registry = Registry(CATALOGUE, tmp_path, FetchOptions(offline=True))
        loader = ToyLoader(sizes={"bge-small": 1_000})
        made = build_worker(config, [torch.device("cpu")], registry, lambda _: loader)
        async with serving(made.app) as worker_url:
            own = {"allow_model_control": True, "allow_local_models": True}
            front = build_app(Config(worker_url=worker_url, **own), files_allowed=False)
            async with serving(front) as gateway_url:
                for url in (worker_url, gateway_url):
                    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
                        await ask(client)

    play(scenario)


@pytest.mark.parametrize("verb", VERBS)
def test_a_name_that_nothing_has_is_refused_with_near_ones_and_where_all_are(tmp_path, verb):
    async def ask(client):
        answer = await client.post(f"/v1/models/bge-smal/{verb}")
        assert answer.status_code == 404
        assert answer.headers["X-SIE-Error-Code"] == "MODEL_NOT_FOUND"
        message = answer.json()["error"]["message"]
        assert "no model 'bge-smal'; known: bge-small" in message
        assert "GET /v1/models" in message

    asking(tmp_path, ask)


@pytest.mark.parametrize("name", ["org/nothing", "org/nothing@main", "/nowhere/at-all", "./no"])
@pytest.mark.parametrize("verb", VERBS[1:])
def test_what_is_not_on_disk_cannot_be_moved(tmp_path, verb, name):
    async def ask(client):
        answer = await client.post(f"/v1/models/{name.replace('./', '%2E/')}/{verb}")
        assert answer.status_code == 404
        assert f"no model {name!r}; known: bge-small" in answer.text

    asking(tmp_path, ask)


def test_what_is_known_and_on_no_device_is_unloaded_as_often_as_anybody_likes(tmp_path):
    folder = tmp_path / "own"
    write_json(folder, "config.json", {})

    async def ask(client):
        for name in ("bge-small", str(folder)):
            for verb in ("unload", "unpin"):
                answer = await client.post(f"/v1/models/{name}/{verb}")
                assert answer.status_code == 200
        refused = await client.post("/v1/models/bge-small/pin")
        assert refused.status_code == 400
        assert "bge-small is not loaded" in refused.text

    asking(tmp_path, ask)


def test_a_name_like_a_hub_s_may_be_loaded_and_moved_once_it_is_there(tmp_path):
    async def ask(client):
        answer = await client.post("/v1/models/org/new/load", json={"wait_s": 30})
        assert answer.status_code == 200
        for verb in ("pin", "unpin", "unload"):
            assert (await client.post(f"/v1/models/org/new/{verb}")).status_code == 200

    asking(tmp_path, ask)


def test_a_card_that_there_is_none_of_names_near_ones(tmp_path):
    async def ask(client):
        for path in ("/v1/models/bge-smal", "/info?model=bge-smal"):
            answer = await client.get(path)
            assert answer.status_code in (404, 424)
            assert "no model 'bge-smal'; known: bge-small" in answer.text
            assert "others appear once they are used" in answer.text

    asking(tmp_path, ask)
