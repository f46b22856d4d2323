"""A model whose catalogue entry has a head alone and names its base: found, joined and run."""

import json
from pathlib import Path

import httpx2
import pytest
import torch

from sie_mcp.catalogue.entries import Catalogue, Entry, Source
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.registry import Registry
from sie_mcp.errors import DownloadFailed
from tests.engine.conftest import http, play, running
from tests.parity.pruners import DOCUMENTS, QUERY, formula, make_head, mlp, save_pruner, state_of

PROFILES = {"default": {"threshold": 0.6, "highlight_threshold": 0.9}, "soft": {"threshold": 0.4}}


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    """Return a base, and a head in a folder of its own as a training loop saved it."""
    save_pruner(tmp_path / "base")
    (tmp_path / "base" / "pruning_head.pt").unlink()
    (tmp_path / "head").mkdir()
    saved = {"epoch": 3, "model_state_dict": state_of(make_head(), "pruning_head.classifier.")}
    torch.save(saved, tmp_path / "head" / "best.pt")
    base = Entry(
        name="base",
        tasks=("cross_encoder",),
        max_length=99,
        size_bytes=40,
        sources=(Source(kind="path", path=tmp_path / "base"),),
    )
    pruner = Entry.model_validate(
        {
            "name": "pruner",
            "tasks": ("cross_encoder", "pruning"),
            "base": "base",
            "size_bytes": 2,
            "profiles": PROFILES,
            "sources": [{"kind": "path", "path": tmp_path / "head", "file": "best.pt"}],
        }
    )
    return Catalogue(models=(base, pruner))


def _registry(catalogue: Catalogue, tmp_path: Path) -> Registry:
    return Registry(catalogue, tmp_path / "cache", FetchOptions(offline=True))


def test_the_head_is_read_beside_its_base(catalogue: Catalogue, tmp_path: Path) -> None:
    loader = CheckpointLoader(_registry(catalogue, tmp_path), torch.device("cpu"), torch.float32)
    reference, head = save_pruner(tmp_path / "again")
    (logit, probabilities), *_ = formula(reference, mlp(head), tmp_path / "again", DOCUMENTS[2:3])

    async def scenario() -> None:
        async with running(tmp_path, loader, budget=10**9) as rig, http(rig) as client:
            found = await _extract(client, DOCUMENTS[2])
            spread = [entity["score"] for entity in found["entities"]]
            assert min(probabilities) - 1e-5 <= min(spread)
            assert max(spread) <= max(probabilities) + 1e-5
            (relevance,) = found["classifications"]
            assert relevance["score"] == pytest.approx(float(torch.tensor(logit).sigmoid()))

    play(scenario)


async def _extract(client: httpx2.AsyncClient, text: str) -> dict:
    body = {"items": [{"text": text}], "params": {"instruction": QUERY}}
    answer = await client.post("/v1/extract/pruner", content=json.dumps(body))
    assert answer.status_code == 200, answer.text
    return answer.json()["items"][0]


def test_the_base_s_entry_is_known_of_the_model_too(catalogue: Catalogue, tmp_path: Path) -> None:
    found = _registry(catalogue, tmp_path).locate("pruner")
    assert (found.folder.name, found.head_folder.name) == ("base", "head")
    assert (found.entry.name, found.entry.max_length) == ("pruner", 99)
    loader = CheckpointLoader(_registry(catalogue, tmp_path), torch.device("cpu"), torch.float32)
    card = loader.load(loader.plan("pruner")).card
    assert card.primitives == ["score", "extract"]
    assert card.outputs == ["score", "entities"]
    assert card.labels == ["highlight", "kept", "pruned"]
    assert card.profiles["soft"] == {"threshold": 0.4, "highlight_threshold": None}
    assert "best.pt" in card.decisions["pruning"]
    assert "99 (catalogue)" in card.decisions["max_length"]


def test_the_listing_knows_both_parts_sizes(catalogue: Catalogue, tmp_path: Path) -> None:
    card = _registry(catalogue, tmp_path).cards()["pruner"]
    assert (card.size_bytes, card.primitives) == (42, ["score", "extract"])


def test_a_head_that_is_not_there_is_named(catalogue: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "head" / "best.pt").rename(tmp_path / "head" / "last.pt")
    with pytest.raises(DownloadFailed, match="pruner is not on disk"):
        _registry(catalogue, tmp_path).locate("pruner")
