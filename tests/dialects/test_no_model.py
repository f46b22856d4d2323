"""Requests that name no model where no default can answer: what could, and which setting."""

from pathlib import Path

import httpx2
import pytest
from transformers import BertModel

from sie_mcp.catalogue.entries import Catalogue, Entry, Source
from tests.dialects.rig import both
from tests.tiny import bert_config, save_model

pytestmark = pytest.mark.anyio

PREDICT, SPARSE = {"inputs": "alpha"}, {"output_types": ["sparse"]}
PAIR = {"inputs": [["alpha", "beta"]]}
ITEMS = [{"text": "alpha"}]
CASES = [
    ("/embed_sparse", PREDICT, "plain has no sparse output", "m3, other", "encode"),
    ("/embed_all", PREDICT, "plain has no multivector output", "m3", "encode"),
    ("/v1/encode/auto", {"items": ITEMS, "params": SPARSE}, "plain has no sparse", "m3", "encode"),
    ("/predict", PREDICT, "ner gives entities, no labels", "do: nli; name", "extract"),
    ("/predict", PAIR, "plain gives dense, no labels", "ce, nli", "score"),
    ("/v1/extract/auto", {"items": ITEMS, "params": {"labels": ["animal"]}},
     "ner does not know ['animal']; it finds: PER", "none of the catalogue", "extract_labels"),
    ("/v1/extract/auto", {"items": ITEMS, "params": {"options": {"structure": {"records": []}}}},
     "ner finds no structure", "none of the catalogue", "extract_labels"),
    ("/v1/extract/auto", {"items": [{"images": [{"data": "aGk="}]}]},
     "ner reads texts, not images", "", "extract"),
]  # fmt: skip


@pytest.fixture(scope="module")
def plain(folder: Path) -> Entry:
    """A model of dense vectors alone."""
    (folder / "plain").mkdir()
    save_model(folder / "plain", BertModel(bert_config()))
    sources = (Source(kind="path", path=str(folder / "plain")),)
    return Entry(name="plain", tasks=("dense",), sources=sources)


@pytest.fixture
def catalogue(catalogue: Catalogue, plain: Entry) -> Catalogue:
    """The same models, with defaults that can do little, and one more that is not there."""
    nowhere = (Source(kind="path", path="/nowhere"),)
    other = Entry(name="other", tasks=("sparse",), sources=nowhere)
    defaults = {"encode": ("plain",), "score": ("plain",), "extract": ("ner",)}
    return Catalogue(models=(*catalogue.models, plain, other), defaults=defaults)


@pytest.mark.parametrize(("path", "body", "reason", "others", "role"), CASES)
async def test_where_no_default_can_the_error_names_models_and_the_setting(
    clients: list[httpx2.AsyncClient], path, body, reason, others, role
):
    for client in clients:
        answer = await client.post(path, json=body)
        assert answer.status_code in (400, 422)
        assert "names no model, and the default " + reason in answer.text
        assert others in answer.text
        assert f"set SIE_MCP_DEFAULT_MODELS={role}=NAME" in answer.text


async def test_a_model_that_is_named_is_told_of_others_and_of_no_setting(clients):
    for client in clients:
        answer = await client.post("/embed_sparse", json={"inputs": "alpha", "model": "plain"})
        assert answer.status_code == 422
        assert answer.json()["error"] == (
            "plain has no sparse output; it has: dense; models that have one: m3, other"
        )
        for body in (PREDICT, PAIR):
            answer = await client.post("/predict", json=body | {"model": "ner"})
            assert answer.status_code == 422
            assert "models that" in answer.json()["error"]


async def test_a_default_that_fits_answers_though_another_comes_first(folder, catalogue):
    update = {"encode": ("plain", "m3"), "score": ("m3", "ce")}
    able = catalogue.model_copy(update={"defaults": catalogue.defaults | update})
    async with both(folder, able) as clients:
        for client in clients:
            answer = await client.post("/embed_sparse", json={"inputs": "alpha"})
            assert answer.status_code == 200
            assert answer.headers["X-SIE-Model"] == "m3"
            answer = await client.post("/predict", json=PAIR)
            assert answer.headers["X-SIE-Model"] == "ce"
            answer = await client.post("/embed", json={"inputs": "alpha"})
            assert answer.headers["X-SIE-Model"] == "plain"


async def test_a_default_that_is_not_there_is_not_fetched_to_say_that_it_cannot(folder, catalogue):
    update = {"encode": ("other",)}
    unable = catalogue.model_copy(update={"defaults": catalogue.defaults | update})
    async with both(folder, unable) as clients:
        for client in clients:
            answer = await client.post("/embed", json={"inputs": "alpha"})
            assert answer.status_code == 422
            assert "the default other has no dense output; it has: sparse" in answer.text


async def test_what_is_on_disk_has_the_last_word_on_what_it_can(folder, catalogue):
    models = [
        one.model_copy(update={"tasks": ("dense",)}) if one.name == "m3" else one
        for one in catalogue.models
    ]
    meagre = Catalogue(models=tuple(models), defaults={"encode": ("m3",)})
    async with both(folder, meagre) as clients:
        for client in clients:
            answer = await client.post("/embed_sparse", json={"inputs": "alpha"})
            assert answer.status_code == 200


async def test_where_there_is_no_default_at_all_the_error_says_the_same(folder, catalogue):
    async with both(folder, catalogue.model_copy(update={"defaults": {}})) as clients:
        for client in clients:
            for path, body, role, models in (
                ("/embed", PREDICT, "encode", "m3, plain, other"),
                ("/rerank", {"query": "a", "texts": ["b"]}, "score", "m3, ce, nli"),
                ("/predict", PREDICT, "extract", "nli, ner"),
            ):
                answer = await client.post(path, json=body)
                assert answer.status_code == 422
                assert f"the default for {role} is not set" in answer.text
                assert models in answer.text
                assert f"SIE_MCP_DEFAULT_MODELS={role}=NAME" in answer.text
            tokens = await client.post("/tokenize", json=PREDICT)
            assert "SIE_MCP_DEFAULT_MODELS=encode=NAME" in tokens.text
