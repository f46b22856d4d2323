"""Low-rank adapters by request: loaded on demand, several in one batch, evicted on their own."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import BertModel

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.loras import LoraName
from sie_mcp.engine.registry import Registry
from sie_mcp.errors import ModelLoadFailed, ModelNotFound
from tests.engine.conftest import http, play, running
from tests.tiny import bert_config, save_model
from tests.toy_worker import CATALOGUE

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
TEXTS = ["alpha beta", "morning coffee", "hello"]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    save_model(tmp_path / "base", BertModel(bert_config()))
    return tmp_path / "base"


def save_lora(base: Path, seed: int) -> Path:
    torch.manual_seed(seed)
    config = LoraConfig(r=2, lora_alpha=8, target_modules=["query", "value"])
    adapted = get_peft_model(BertModel.from_pretrained(base), config)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            parameter.data = torch.randn(parameter.shape) * 0.2
    folder = base.parent / f"lora{seed}"
    adapted.save_pretrained(folder)
    return folder


def request(lora: Path | None) -> wire.EncodeRequest:
    options = wire.EncodeOptions(lora=None if lora is None else str(lora))
    items = [wire.Item(text=text) for text in TEXTS]
    return wire.EncodeRequest(items=items, params=wire.EncodeParams(options=options))


def rows(response: wire.EncodeResponse) -> np.ndarray:
    return np.stack([item.dense.values for item in response.items])


def make_loader(tmp_path: Path) -> CheckpointLoader:
    registry = Registry(CATALOGUE, tmp_path, FetchOptions(offline=True))
    return CheckpointLoader(registry, torch.device("cpu"), torch.float32)


def test_requests_with_and_without_adapters_share_batches(base: Path, tmp_path: Path) -> None:
    folders = [None, save_lora(base, 1), save_lora(base, 2)]

    async def scenario() -> None:
        async with running(tmp_path, make_loader(tmp_path), budget=10**9) as rig:
            alone = [rows(await rig.engine.run(str(base), request(one))) for one in folders]
            assert abs(alone[0] - alone[1]).max() > 1e-2
            assert abs(alone[1] - alone[2]).max() > 1e-2
            several = [*folders * 8]
            answers = await asyncio.gather(
                *(rig.engine.run(str(base), request(one)) for one in several)
            )
            for place, answer in enumerate(answers):
                assert abs(rows(answer) - alone[place % 3]).max() <= 1e-5
            assert answers[0].model == str(base)
            names = {card.name for card in (await rig.engine.models()).models if card.loaded}
            assert names == {str(base), *(f"{base} + {folder}" for folder in folders[1:])}

    play(scenario)


def test_adapters_are_evicted_on_their_own(base: Path, tmp_path: Path) -> None:
    folders = [save_lora(base, seed) for seed in (1, 2, 3)]
    recipe = create.read_recipe("base", base, None)
    base_bytes = create.weight_bytes(recipe, torch.float32)
    plan = create.plan_lora("lora", folders[0], recipe)
    lora_bytes = 4 * plan.num_parameters

    async def scenario() -> None:
        budget = base_bytes + 2 * lora_bytes
        async with running(tmp_path, make_loader(tmp_path), budget=budget) as rig:
            expected = {}
            for folder in folders * 2:
                found = rows(await rig.engine.run(str(base), request(folder)))
                expected.setdefault(folder, found)
                assert abs(found - expected[folder]).max() <= 1e-6
                assert rig.ledger.get(str(base)) is not None
                assert rig.ledger.resident_bytes <= budget
            kept = [
                folder for folder in folders if rig.ledger.get(LoraName(str(base), str(folder)))
            ]
            assert len(kept) == 2

    play(scenario)


def test_an_adapter_that_is_none_leaves_the_model_as_it_was(base: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, make_loader(tmp_path), budget=10**9) as rig:
            with pytest.raises(ModelNotFound):
                await rig.engine.run(str(base), request(tmp_path / "nowhere"))
            with pytest.raises(ModelLoadFailed, match=r"has no adapter_config\.json"):
                await rig.engine.run(str(base), request(base))
            await rig.engine.run(str(base), request(None))

    play(scenario)


def test_it_is_an_option_of_every_route(base: Path, tmp_path: Path) -> None:
    folder = save_lora(base, 1)

    async def scenario() -> None:
        worker = running(tmp_path, make_loader(tmp_path), budget=10**9)
        async with worker as rig, http(rig) as client:
            body = {"items": [{"text": "alpha"}], "params": {"options": {"lora": str(folder)}}}
            answer = await client.post(f"/v1/encode/{base}", json=body)
            assert answer.status_code == 200, answer.text
            body = {
                "query": {"text": "alpha"},
                "items": [{"text": "beta"}],
                "options": {"lora": str(folder)},
            }
            plain = {**body, "options": {}}
            scored = (await client.post(f"/v1/score/{base}", json=body)).json()
            other = (await client.post(f"/v1/score/{base}", json=plain)).json()
            difference = scored["scores"][0]["score"] - other["scores"][0]["score"]
            assert abs(difference) > 1e-3

    play(scenario)
