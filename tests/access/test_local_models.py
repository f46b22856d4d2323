"""A folder in the place of a model's name: refused to callers over TCP, whatever they write."""

import json

import httpx2
import pytest
import torch

from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import FixedEndpoint
from sie_mcp.engine.main import build_worker
from sie_mcp.engine.registry import Registry
from sie_mcp.errors import NotAllowed
from sie_mcp.gateway.app import build_app
from sie_mcp.local_models import is_local_model, model_in_path
from tests.gateway.front import CALL, raw_call
from tests.servers import serving
from tests.toy_worker import CATALOGUE
from tests.toys import Plan, ToyLoader

pytestmark = pytest.mark.anyio
ITEMS = {"items": [{"text": "x"}]}
# Written as a caller would write it in a URL.
ESCAPES = [
    "/etc", "%2Fetc", "//etc", "./x", ".%2Fx", "../x", "%2E%2E/x", "~", "~root", "~/x", "%7E/x",
    "/proc/self/cwd", "/dev/zero", "%5C%5Chost%5Cshare", "file:%2F%2F%2Fetc", "%20/etc",
    "/etc/../etc", "org/name@../../../etc", "org/name@%2Fetc",
    "org/../../etc", "..%2F..%2Fetc/passwd",
]  # fmt: skip


@pytest.fixture
async def worker_url(tmp_path):
    config = Config(cache_dir=tmp_path / "cache")
    registry = Registry(CATALOGUE, config.cache_dir, FetchOptions(offline=True))
    loader = OwnLoader(registry)
    worker = build_worker(config, [torch.device("cpu")], registry, lambda _: loader)
    async with serving(worker.app) as url:
        yield url


class OwnLoader(ToyLoader):
    """Finds files as the real one does before it makes a toy."""

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self._registry = registry

    def plan(self, name: str) -> Plan:
        if name != "toy":
            self._registry.locate(name)
        return super().plan(name)


async def answers(url: str, escape: str) -> list[httpx2.Response]:
    name = str(httpx2.URL(f"http://h/{escape}").path)[1:]
    async with httpx2.AsyncClient(base_url=url, timeout=20) as http:
        return [
            await http.post(f"/v1/encode/{escape}", json=ITEMS),
            await http.post(f"/v1/score/{escape}", json=ITEMS | {"query": {"text": "q"}}),
            await http.post(f"/v1/extract/{escape}", json=ITEMS),
            await http.post("/v1/embeddings", json={"model": name, "input": "x"}),
            await http.post("/v1/rerank", json={"model": name, "query": "q", "documents": ["d"]}),
            await http.post("/v1/encode/toy", json=ITEMS | {"params": {"options": {"lora": name}}}),
            await http.post(f"/v1/models/{escape}/load", json={"wait_s": 10}),
            await http.get(f"/v1/models/{escape}"),
        ]


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("control", [False, True])
async def test_no_answer_of_a_gateway_tells_what_is_on_its_disk(worker_url, escape, control):
    config = Config(worker_url=worker_url, load_wait_s=0.2, allow_model_control=control)
    async with serving(build_app(config, files_allowed=False)) as url:
        for answer in await answers(url, escape):
            assert answer.status_code in (400, 403, 404), (answer.request.url, answer.text)
            for word in ("config.json", "No such file", "Permission", "is a directory"):
                assert word not in answer.text


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("model", ["/etc", "./x", "../x", "~/x", "~root", "/proc/self/cwd"])
async def test_no_tool_takes_a_folder_for_a_model_of_a_remote_caller(worker_url, version, model):
    config = Config(worker_url=worker_url, load_wait_s=0.2)
    async with (
        serving(build_app(config, files_allowed=False)) as url,
        httpx2.AsyncClient(base_url=url, timeout=20) as http,
    ):
        call = raw_call(version)
        call["json"]["params"]["arguments"] = CALL | {"model": model}
        text = (await http.post("/mcp", **call)).text
        assert "does not let callers name a folder" in text
        assert "/home" not in text
        assert "/root" not in text


async def test_they_may_where_it_is_set(worker_url):
    config = Config(worker_url=worker_url, load_wait_s=0.2, allow_local_models=True)
    async with (
        serving(build_app(config, files_allowed=False)) as url,
        httpx2.AsyncClient(base_url=url, timeout=20) as http,
    ):
        answer = await http.post("/v1/encode/%2Fetc", json=ITEMS)
        assert "does not let callers" not in answer.text
        # Whatever a caller says of itself.
    config = Config(worker_url=worker_url, load_wait_s=0.2)
    async with (
        serving(build_app(config, files_allowed=False)) as url,
        httpx2.AsyncClient(base_url=url, timeout=20) as http,
    ):
        headers = {"X-SIE-Local-Models": "yes", "x-sie-local-models": "yes"}
        answer = await http.post("/v1/encode/%2Fetc", json=ITEMS, headers=headers)
        assert answer.status_code == 403


async def test_over_the_local_pipe_they_may(worker_url):
    client = EngineClient(FixedEndpoint(worker_url), load_wait_s=0.2)
    with pytest.raises(Exception) as raised:
        await client.model("/etc")
    assert not isinstance(raised.value, NotAllowed)
    await client.aclose()


@pytest.mark.parametrize("name", ["auto", "bge-m3", "org/name", "a.b/c_d", "org/name@v1"])
def test_ordinary_names_are_no_folders(name):
    assert not is_local_model(name)
    assert json.dumps(model_in_path(name, False))
