"""Settings as they came out, listed where a caller looks; a lowered one is warned of."""

import logging

import httpx2
import pytest
import torch

from sie_mcp.engine.effective import batch_tokens_of
from tests.dialects.rig import save_all, worker

pytestmark = pytest.mark.anyio
CPU = torch.device("cpu")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(("asked", "got"), [(None, 4_096), (100, 100), (10**9, 250), (300, 250)])
def test_what_is_asked_for_is_given_as_far_as_memory_goes(asked, got):
    assert batch_tokens_of(asked, CPU, 1_000_000, 1_000) == got


async def test_a_setting_that_is_lowered_is_listed_and_warned_of(tmp_path, caplog):
    """Case T50."""
    catalogue = save_all(tmp_path)
    settings = {"max_batch_tokens": 1_000_000, "memory_budget": "64MiB"}
    with caplog.at_level(logging.WARNING):
        async with (
            worker(tmp_path, catalogue, **settings) as url,
            httpx2.AsyncClient(base_url=url, timeout=60) as client,
        ):
            listed = (await client.get("/v1/models")).json()["settings"]
            info = (await client.get("/info?model=m3")).json()
    found = {one["name"]: one for one in listed}
    tokens = found["max_batch_tokens"]
    assert tokens["requested"] == "1000000"
    assert 1 <= int(tokens["effective"]) < 1_000
    assert tokens["reason"] == "a quarter of memory_budget"
    assert info["settings"] == listed
    assert info["max_batch_tokens"] == int(tokens["effective"])
    assert (found["memory_budget"]["requested"], found["memory_budget"]["effective"]) == (
        "64MiB",
        str(64 * 1024**2),
    )
    assert found["dtype"]["effective"] == "float32"
    assert f"max_batch_tokens=1000000 is {tokens['effective']} here" in caplog.text


async def test_settings_as_asked_for_need_no_reason_and_no_warning(tmp_path, caplog):
    catalogue = save_all(tmp_path)
    with caplog.at_level(logging.WARNING):
        async with (
            worker(tmp_path, catalogue, max_batch_tokens=512, memory_budget="512MiB") as url,
            httpx2.AsyncClient(base_url=url, timeout=60) as client,
        ):
            listed = (await client.get("/v1/models")).json()["settings"]
    (tokens,) = [one for one in listed if one["name"] == "max_batch_tokens"]
    assert tokens == {"name": "max_batch_tokens", "requested": "512", "effective": "512"}
    assert "max_batch_tokens" not in caplog.text
