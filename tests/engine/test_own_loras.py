"""Adapters in a checkpoint's own tensors, by request: no load of their own, no place in memory."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sie_mcp import wire
from sie_mcp.errors import InvalidInput, ModelNotFound
from tests.engine.conftest import http, play, running
from tests.engine.test_loras import make_loader
from tests.parity.checkpoints import write_json
from tests.parity.jina_tasks import NAMES, save_tasks
from tests.parity.run import load, run

TEXTS = ["alpha beta", "morning coffee", "x"]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    save_tasks(tmp_path / "base")
    return tmp_path / "base"


def request(lora: str | None, *, is_query: bool | None = None) -> wire.EncodeRequest:
    options = wire.EncodeOptions(lora=lora, is_query=is_query)
    items = [wire.Item(text=text) for text in TEXTS]
    return wire.EncodeRequest(items=items, params=wire.EncodeParams(options=options))


def rows(response: wire.EncodeResponse) -> np.ndarray:
    return np.stack([item.dense.values for item in response.items])


def save_other(folder: Path) -> Path:
    """Save a PEFT adapter of one layer."""
    folder.mkdir()
    layer = "base_model.model.roberta.encoder.layers.1.mixer.out_proj"
    tensors = {f"{layer}.lora_A.weight": (2, 32), f"{layer}.lora_B.weight": (32, 2)}
    generator = torch.Generator().manual_seed(1)
    save_file(
        {name: torch.randn(shape, generator=generator) * 0.3 for name, shape in tensors.items()},
        folder / "adapter_model.safetensors",
    )
    write_json(folder / "adapter_config.json", {"peft_type": "LORA", "r": 2, "lora_alpha": 4})
    return folder


def test_requests_for_all_tasks_share_batches_and_nothing_is_loaded(
    base: Path, tmp_path: Path
) -> None:
    adapter = load(base)
    alone = {name: rows(run(adapter, request(name))[0]) for name in ("", *NAMES)}

    async def scenario() -> None:
        async with running(tmp_path, make_loader(tmp_path), budget=10**9) as rig:
            several = [*alone] * 4
            answers = await asyncio.gather(
                *(rig.engine.run(str(base), request(name)) for name in several)
            )
            for name, answer in zip(several, answers, strict=True):
                assert abs(rows(answer) - alone[name]).max() <= 1e-5
            for is_query, name in ((True, "retrieval.query"), (False, "retrieval.passage")):
                answer = await rig.engine.run(str(base), request(None, is_query=is_query))
                assert abs(rows(answer) - alone[name]).max() <= 1e-5
            loaded = [card for card in (await rig.engine.models()).models if card.loaded]
            assert [card.name for card in loaded] == [str(base)]
            assert loaded[0].loras == NAMES
            assert rig.ledger.resident_bytes == loaded[0].size_bytes

    play(scenario)


def test_a_task_that_is_none_is_refused_with_those_that_are(base: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, make_loader(tmp_path), budget=10**9) as rig:
            with pytest.raises(
                InvalidInput, match=r"no adapter 'retrieval'.*retrieval\.query, ret"
            ):
                await rig.engine.run(str(base), request("retrieval"))
            with pytest.raises(ModelNotFound):
                await rig.engine.run(str(base), request(str(tmp_path / "nowhere")))
            names = [card.name for card in (await rig.engine.models()).models]
            assert f"{base} + retrieval" not in names

    play(scenario)


def test_another_adapter_takes_the_place_of_the_roles(base: Path, tmp_path: Path) -> None:
    other = str(save_other(tmp_path / "other"))

    async def scenario() -> None:
        async with running(tmp_path, make_loader(tmp_path), budget=10**9) as rig:
            plain = rows(await rig.engine.run(str(base), request("")))
            found = rows(await rig.engine.run(str(base), request(other)))
            assert abs(found - plain).max() > 1e-2
            for is_query in (True, False):
                answer = await rig.engine.run(str(base), request(other, is_query=is_query))
                assert abs(rows(answer) - found).max() <= 1e-5

    play(scenario)


def test_every_route_takes_them(base: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        worker = running(tmp_path, make_loader(tmp_path), budget=10**9)
        async with worker as rig, http(rig) as client:
            scores = []
            for options in ({}, {"lora": "separation"}, {"lora": ""}):
                body = {"query": {"text": "alpha"}, "items": [{"text": "x"}], "options": options}
                answer = await client.post(f"/v1/score/{base}", json=body)
                scores.append(answer.json()["scores"][0]["score"])
            assert np.abs(np.subtract.outer(scores, scores)).max() > 1e-3
            body = {"items": [{"text": "alpha"}], "params": {"options": {"lora": "none"}}}
            answer = await client.post(f"/v1/encode/{base}", json=body)
            assert answer.status_code == 400, answer.text
            assert "separation, classification, text-matching" in answer.text
            sides = {}
            for role in (None, "query", "document"):
                body = {"model": str(base), "input": "alpha", "input_type": role}
                answer = await client.post("/v1/embeddings", json=body)
                sides[role] = np.array(answer.json()["data"][0]["embedding"])
            assert abs(sides["query"] - sides["document"]).max() > 1e-2
            assert abs(sides["query"] - sides[None]).max() > 1e-2

    play(scenario)


def test_none_is_what_a_model_without_adapters_of_its_own_has(tmp_path: Path) -> None:
    save_tasks(tmp_path / "base")
    plain = tmp_path / "base-plain"

    async def scenario() -> None:
        async with running(tmp_path, make_loader(tmp_path), budget=10**9) as rig:
            found = [rows(await rig.engine.run(str(plain), request(one))) for one in (None, "")]
            assert abs(found[0] - found[1]).max() == 0.0
            with pytest.raises(ModelNotFound, match="no model 'separation'"):
                await rig.engine.run(str(plain), request("separation"))

    play(scenario)
