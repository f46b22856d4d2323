"""A worker on a port asks for keys too; a gateway shows it one."""

import httpx2
import pytest
import torch

from sie_mcp.access.setup import make_access
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import FixedEndpoint
from sie_mcp.engine.main import build_worker
from sie_mcp.engine.registry import Registry
from sie_mcp.errors import NotAuthenticated
from tests.access.test_both_doors import bearing
from tests.servers import serving
from tests.toy_worker import CATALOGUE
from tests.toys import ToyLoader

pytestmark = pytest.mark.anyio
ITEMS = {"items": [{"text": "x"}]}


@pytest.fixture
async def worker_url(tmp_path, key_file):
    key_file.gateway = key_file.add("gateway")
    config = Config(cache_dir=tmp_path / "cache", auth="api-key", api_keys_file=key_file.path)
    registry = Registry(CATALOGUE, config.cache_dir, FetchOptions(offline=True))
    loader = ToyLoader()
    worker = build_worker(
        config, [torch.device("cpu")], registry, lambda _: loader, access=make_access(config)
    )
    async with serving(worker.app) as url:
        yield url


async def test_probes_are_open_and_the_rest_wants_a_key(worker_url, key_file):
    async with httpx2.AsyncClient(base_url=worker_url, timeout=20) as http:
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await http.get(path)).status_code in (200, 503)
        for path in ("/v1/models", "/v1/memory", "//v1/models", "/", "/healthz/../v1/models"):
            assert (await http.get(path)).status_code == 401
        assert (await http.post("/v1/encode/toy", json=ITEMS)).status_code == 401
        headers = bearing(key_file.gateway)
        assert (await http.post("/v1/encode/toy", json=ITEMS, headers=headers)).status_code == 200
        # Models are moved with another permission.
        answer = await http.post("/v1/models/toy/unload", headers=headers)
        assert answer.status_code == 403


async def test_a_client_shows_the_workers_key(worker_url, key_file):
    endpoint = FixedEndpoint(worker_url)
    client = EngineClient(endpoint, worker_key=key_file.gateway)
    assert (await client.models()).models
    await client.aclose()
    stranger = EngineClient(endpoint)
    with pytest.raises(NotAuthenticated):
        await stranger.models()
    await stranger.aclose()
