"""Items whose numbers outgrow float16: a second try in float32, or an error of their own."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import numpy as np
import pytest
import torch

from sie_mcp import metrics, wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Rows
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.config import Config
from sie_mcp.engine import main
from sie_mcp.engine.engine import Engine
from sie_mcp.engine.loader import CheckpointLoader, Plan
from sie_mcp.engine.registry import Registry
from tests.engine.conftest import http, play, running
from tests.parity.run import CPU, load, run
from tests.tiny import save_overflowing_bert
from tests.toy_worker import CATALOGUE
from tests.toys import DIMS, ToyAdapter, ToyLoader

TEXTS = ["fine", "boom", "fine too"]
NONE_FINITE = "the model's dense output is not finite; "

in_an_early_and_the_last_layer = pytest.mark.parametrize("layer", [0, 2])


def retries() -> float:
    return metrics.REGISTRY.get_sample_value("sie_nonfinite_retries_total") or 0.0


def in_float32(folder: Path) -> list[np.ndarray]:
    items = [wire.Item(text=text) for text in TEXTS]
    response, _ = run(load(folder), wire.EncodeRequest(items=items))
    return [item.dense.values for item in response.items]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@asynccontextmanager
async def serving(
    folder: Path, device: torch.device, *, retries_nonfinite: bool
) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to a worker whose dtype is float16."""
    registry = Registry(CATALOGUE, folder, FetchOptions(offline=True))
    loader = CheckpointLoader(registry, device, torch.float16)
    settings = {"device": device, "budget": 10**9, "retries_nonfinite": retries_nonfinite}
    async with running(folder, loader, **settings) as rig, http(rig) as client:
        yield client


async def encode_over_http(client: httpx2.AsyncClient, folder: Path) -> list[dict[str, Any]]:
    route = f"/v1/encode/{quote(str(folder), safe='')}"
    answer = await client.post(route, json={"items": [{"text": text} for text in TEXTS]})
    assert answer.status_code == 200
    assert not any(one in answer.text for one in ("NaN", "Infinity"))
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def check_float32_answers(folder: Path, device: torch.device, layer: int) -> None:
    """Case T13, fallback on."""
    save_overflowing_bert(folder, layer=layer)
    before = retries()

    async def scenario() -> None:
        async with serving(folder, device, retries_nonfinite=True) as client:
            items = await encode_over_http(client, folder)
            for item, expected in zip(items, in_float32(folder), strict=True):
                assert item.get("error") is None
                values = np.array(item["dense"]["values"])
                assert np.isfinite(values).all()
                assert cosine(values, expected) >= 0.999

    play(scenario)
    assert retries() - before == 1


def check_that_one_item_fails(folder: Path, device: torch.device, layer: int) -> None:
    """Case T13, fallback off; OpenAI's form has no place for one item's error."""
    save_overflowing_bert(folder, layer=layer)
    before = retries()

    async def scenario() -> None:
        async with serving(folder, device, retries_nonfinite=False) as client:
            items = await encode_over_http(client, folder)
            assert [bool(item.get("error")) for item in items] == [False, True, False]
            assert [bool(item.get("dense")) for item in items] == [True, False, True]
            error = items[1]["error"]
            assert error["code"] == "non_finite_output"
            assert "SIE_MCP_DTYPE=bfloat16 or float32" in error["message"]
            body = {"model": str(folder), "input": TEXTS}
            answer = await client.post("/v1/embeddings", json=body)
            assert answer.status_code == 500
            assert answer.json()["error"]["code"] == "non_finite_output"
            assert answer.json()["error"]["message"].startswith(f"input[1]: {NONE_FINITE}")

    play(scenario)
    assert retries() == before


@in_an_early_and_the_last_layer
def test_what_outgrows_float16_is_answered_in_float32(tmp_path: Path, layer: int) -> None:
    check_float32_answers(tmp_path, CPU, layer)


@in_an_early_and_the_last_layer
def test_without_a_second_try_one_item_fails_and_no_other(tmp_path: Path, layer: int) -> None:
    check_that_one_item_fails(tmp_path, CPU, layer)


class Overflowing(ToyAdapter):
    """Multiplies by a weight of float16; `wide` stands in for what a second try runs into."""

    wide: Callable[[PackedBatch], None] = staticmethod(lambda batch: None)

    def forward(self, batch: PackedBatch) -> Outputs:
        """Give each sequence its number of tokens, scaled."""
        self.batches.append(batch.num_seqs)
        scale = torch.tensor([9_000.0], dtype=torch.float16)
        if (scale * 2).dtype == torch.float32:
            self.wide(batch)
        vectors = scale * torch.tensor(batch.lengths, dtype=scale.dtype)[:, None]
        return {"dense": Rows(vectors.float().repeat(1, DIMS), tuple(range(batch.num_seqs + 1)))}


class OverflowingLoader(ToyLoader):
    """Loads such adapters."""

    def load(self, plan: Plan) -> ToyAdapter:
        """Load one."""
        self.adapters[plan.name] = Overflowing(plan.name)
        return self.adapters[plan.name]


# Up to 7 tokens fit into float16; a text has one a word, and three more.
SHORT, LONG, LONGER = "x", "x " * 5, "x " * 6


async def encode(engine: Engine, *texts: str) -> list[wire.EncodedItem]:
    request = wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])
    return (await engine.run("a", request)).items


def test_all_that_is_not_finite_runs_again_together(tmp_path: Path) -> None:
    before = retries()

    async def scenario() -> None:
        loader = OverflowingLoader()
        async with running(tmp_path, loader) as rig:
            items = await encode(rig.engine, SHORT, LONG, SHORT, LONGER)
            found = [item.dense.values[0] for item in items]
            assert found == [36_000, 72_000, 36_000, 81_000]
            assert loader.adapters["a"].batches == [4, 2]

    play(scenario)
    assert retries() - before == 2


def _out_of_memory(batch: PackedBatch) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory")


def _out_of_memory_together(batch: PackedBatch) -> None:
    if batch.num_seqs > 1:
        raise torch.OutOfMemoryError("CUDA out of memory")


def _refused(batch: PackedBatch) -> None:
    raise RuntimeError("add_ writes into torch.float16")


@pytest.mark.parametrize(
    ("wide", "codes", "message"),
    [
        (_out_of_memory_together, [None, None, None], ""),
        (_out_of_memory, [None, "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"], "does not fit"),
        (_refused, [None, "non_finite_output", "non_finite_output"], "in float32 the forward pass"),
    ],
)
def test_a_second_try_that_fails_is_that_item_s_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide, codes, message: str
) -> None:
    monkeypatch.setattr(Overflowing, "wide", staticmethod(wide))

    async def scenario() -> None:
        loader = OverflowingLoader()
        async with running(tmp_path, loader) as rig:
            items = await encode(rig.engine, SHORT, LONG, LONGER)
            assert [item.error and item.error.code for item in items] == codes
            assert all(message in item.error.message for item in items if item.error)
            # What did not fit in float32 makes no other batch smaller.
            await encode(rig.engine, *[SHORT] * 40)
            assert loader.adapters["a"].batches[-1] == 40

    play(scenario)


def test_what_is_not_finite_in_float32_either_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(self: Overflowing, batch: PackedBatch) -> Outputs:
        values = torch.full((batch.num_seqs, DIMS), math.nan)
        return {"dense": Rows(values, tuple(range(batch.num_seqs + 1)))}

    monkeypatch.setattr(Overflowing, "forward", forward)

    async def scenario() -> None:
        async with running(tmp_path, OverflowingLoader()) as rig:
            (item,) = await encode(rig.engine, SHORT)
            assert item.error.code == "non_finite_output"
            assert item.error.message.startswith(f"{NONE_FINITE}it is not in float32 either")

    play(scenario)


@pytest.mark.parametrize(
    ("dtype", "is_wanted", "expected"),
    [
        ("float16", True, True),
        ("bfloat16", True, True),
        ("float16", False, False),
        ("float32", True, False),
        ("auto", True, False),
    ],
)
def test_only_half_precision_has_something_to_gain(
    dtype: str, is_wanted: bool, expected: bool
) -> None:
    config = Config(dtype=dtype, retry_nonfinite=is_wanted)
    assert main.retries_nonfinite(config, CPU) is expected
