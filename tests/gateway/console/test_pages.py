"""The console's routes: who may read what, and where there is none."""

import re
from importlib.resources import files

import httpx2
import pytest

from sie_mcp.config import Config
from sie_mcp.gateway.app import build_app
from sie_mcp.gateway.console.pages import ASSETS, STATE_PATH, has_console
from tests.access.conftest import KeyFile
from tests.cluster.conftest import cluster
from tests.gateway.front import gateway
from tests.servers import serving
from tests.toy_worker import make_worker
from tests.toys import ToyLoader

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("path", sorted(ASSETS))
async def test_files_are_this_servers_own_and_load_nothing_from_elsewhere(path):
    async with gateway() as front:
        answer = await front.http.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(ASSETS[path][1])
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    loaded = re.findall(r"""(?:src|href|from|url\()\s*=?\s*["'(]([^"')#]+)""", answer.text)
    assert all(one.startswith(("/console/", "./")) for one in loaded), loaded
    assert not re.search(r"<script(?! type=\"module\" src=)|<style|\son\w+=|style=", answer.text)


def test_every_script_that_a_page_names_is_served():
    import_of = re.compile(r'from "\./(\w+\.js)"')
    for path in ASSETS:
        if path.endswith(".js"):
            text = _text(path)
            assert all(f"/console/{name}" in ASSETS for name in import_of.findall(text))
            assert "innerHTML" not in text


@pytest.mark.parametrize(
    ("settings", "is_there"),
    [
        ({}, True),
        ({"host": "localhost"}, True),
        ({"host": "0.0.0.0", "auth": "none"}, False),
        ({"host": "0.0.0.0", "auth": "api-key"}, True),
        # Something in front lets others in.
        ({"allowed_hosts": "sie.example.org"}, False),
        ({"allowed_hosts": "sie.example.org", "auth": "oauth"}, True),
        ({"console": False}, False),
        ({"console": False, "auth": "api-key"}, False),
        ({"host": "0.0.0.0", "auth": "none", "console": True}, True),
    ],
)
def test_it_is_there_where_nobody_else_can_see_it_or_a_key_is_asked_for(settings, is_there):
    assert has_console(Config(**settings)) == is_there


async def test_where_it_is_off_nothing_of_it_is_there():
    async with gateway(console=False) as front:
        for path in (*ASSETS, STATE_PATH):
            assert (await front.http.get(path)).status_code == 404


async def test_the_state_wants_a_key_and_the_page_does_not(tmp_path):
    keys = KeyFile(tmp_path / "keys.toml")
    key, operator = keys.add("one", models=["mine-*"]), keys.add("two", control=True)
    async with gateway(auth="api-key", api_keys_file=keys.path) as front:
        assert (await front.http.get("/")).status_code == 200
        for wrong in ({}, {"Authorization": "Bearer sie_wrong"}):
            answer = await front.http.get(STATE_PATH, headers=wrong)
            assert answer.status_code == 401
            assert "pools" not in answer.text
        for good, is_told in ((key, False), (operator, True)):
            answer = await front.http.get(STATE_PATH, headers={"Authorization": f"Bearer {good}"})
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "no-store"
            state = answer.json()
            assert (state["figures"] is not None) == is_told
            assert bool(state["cold"]) == is_told


@pytest.mark.parametrize("path", ["/", STATE_PATH])
@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403)],
)
async def test_no_other_site_reads_it(path, headers, status):
    async with gateway() as front:
        assert (await front.http.get(path, headers=headers)).status_code == status


async def test_one_worker_is_a_pool_of_one(tmp_path):
    worker = make_worker(Config(cache_dir=tmp_path), ToyLoader())
    async with serving(worker.app) as url, gateway(worker_url=url) as front:
        await front.http.post("/v1/encode/toy", json={"items": [{"text": "x"}]})
        (pool,) = (await front.http.get(STATE_PATH)).json()["pools"]
        (one,) = pool["workers"]
        assert (pool["name"], pool["waiting"], one["is_ready"]) == ("worker", None, True)
        assert [model["name"] for model in one["devices"][0]["models"]] == ["toy"]


async def test_looking_starts_no_worker(tmp_path):
    config = Config(cache_dir=tmp_path, runtime_dir=tmp_path / "run")
    app = build_app(config, files_allowed=False)
    async with serving(app) as url, httpx2.AsyncClient(base_url=url) as http:
        (pool,) = (await http.get(STATE_PATH)).json()["pools"]
    assert (pool["name"], pool["workers"]) == ("local", [])
    assert not list((tmp_path / "run").glob("*.log"))


async def test_a_worker_that_is_gone_is_not_ready():
    async with gateway(worker_url="http://127.0.0.1:9") as front:
        (pool,) = (await front.http.get(STATE_PATH)).json()["pools"]
    assert [one["is_ready"] for one in pool["workers"]] == [False]


async def test_looking_is_not_work_that_keeps_a_worker(tmp_path):
    worker = make_worker(Config(cache_dir=tmp_path), ToyLoader())
    async with serving(worker.app) as url, httpx2.AsyncClient(base_url=url) as http:
        before = worker.activity.last_s
        assert (await http.get("/v1/memory")).status_code == 200
        assert (worker.activity.last_s, worker.activity.in_flight) == (before, 0)
        worker.activity.is_draining = True
        assert (await http.get("/v1/memory")).status_code == 503


async def test_pools_show_their_workers(tmp_path):
    async with cluster(tmp_path, 2) as found:
        urls = ",".join(one.url for one in found.workers)
        async with gateway(worker_url=None, workers=urls) as front:
            body = {"items": [{"text": "x"}]}
            assert (await front.http.post("/v1/encode/org/m", json=body)).status_code == 200
            (pool,) = (await front.http.get(STATE_PATH)).json()["pools"]
    assert (pool["name"], pool["waiting"], pool["running"]) == ("default", 0, 0)
    assert sorted(one["address"] for one in pool["workers"]) == sorted(urls.split(","))


def _text(path: str) -> str:
    return (files("sie_mcp.gateway.console") / "assets" / ASSETS[path][0]).read_text("utf-8")
