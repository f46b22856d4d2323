"""Tiny checkpoints behind the worker's routes: usage, limits and refusals as a caller sees them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import httpx2
import torch
from transformers import BertForSequenceClassification, BertModel

from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.registry import Registry
from tests.engine.conftest import http, play, running
from tests.gliner_names import save_gliner_of_names
from tests.tiny import bert_config, save_model, write_json
from tests.toy_worker import CATALOGUE

LIMIT = 64
BUDGET_BYTES = 10**9


@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to a worker that reads real checkpoints."""
    registry = Registry(CATALOGUE, tmp_path, FetchOptions(offline=True))
    loader = CheckpointLoader(registry, torch.device("cpu"), torch.float32)
    budgets = {"budget": BUDGET_BYTES, "host_budget": BUDGET_BYTES}
    async with running(tmp_path, loader, **budgets) as rig, http(rig) as client:
        yield client


def test_usage_counts_the_tokens_that_were_read(tmp_path: Path) -> None:
    """Case T54."""
    save_model(tmp_path, BertModel(bert_config()))
    write_json(tmp_path, "sentence_bert_config.json", {"max_seq_length": 16})
    texts = ["one two", "w " * 100]

    async def scenario() -> None:
        async with serving(tmp_path) as client:
            body = {"model": str(tmp_path), "input": texts}
            answer = (await client.post("/v1/embeddings", json=body)).json()
            assert answer["usage"] == {"prompt_tokens": 4 + 16, "total_tokens": 4 + 16}
            native = {"items": [{"text": text} for text in texts]}
            answer = (await client.post(_route("encode", tmp_path), json=native)).json()
            assert [item["num_tokens"] for item in answer["items"]] == [4, 16]
            assert answer["usage"] == {"input_tokens": 20}

    play(scenario)


def test_a_pair_keeps_something_of_both_sides_or_is_refused_with_its_length(
    tmp_path: Path,
) -> None:
    """Case T23; the longer side is cut first, so a document is never cut to nothing."""
    save_model(tmp_path, BertForSequenceClassification(bert_config(num_labels=1)))
    write_json(tmp_path, "sentence_bert_config.json", {"max_seq_length": LIMIT})

    async def scenario() -> None:
        async with serving(tmp_path) as client:

            async def rerank(query: str, document: str, **fields: object) -> httpx2.Response:
                body = {"model": str(tmp_path), "query": query, "documents": [document], **fields}
                return await client.post("/v1/rerank", json=body)

            for query, document in (("who wrote it", "w " * 500), ("q " * 500, "short document")):
                answer = await rerank(query, document)
                assert answer.json()["usage"] == {"total_tokens": LIMIT}
            refused = await rerank("who", "w " * 500, truncate=False)
            assert refused.status_code == 422
            error = refused.json()["error"]
            assert error["code"] == "INPUT_TOO_LONG"
            assert error["message"] == (
                "items[0] with the query has 504 tokens, over the limit of 64 tokens; "
                "split it or allow truncation"
            )
            card = (await client.get(f"/v1/models/{quote(str(tmp_path), safe='')}")).json()
            assert card["max_sequence_length"] == LIMIT
            assert card["decisions"]["max_length"] == f"{LIMIT} (sentence_bert_config.json)"

    play(scenario)


def test_labels_and_their_scores_travel(tmp_path: Path) -> None:
    save_model(tmp_path, BertForSequenceClassification(bert_config(num_labels=3)))

    async def scenario() -> None:
        async with serving(tmp_path) as client:
            items = [{"text": "alpha"}]
            answer = (await client.post(_route("extract", tmp_path), json={"items": items})).json()
            (item,) = answer["items"]
            assert sum(one["score"] for one in item["classifications"]) > 0.999
            body = {"query": {"text": "who"}, "items": items, "options": {"label": "LABEL_2"}}
            (score,) = (await client.post(_route("score", tmp_path), json=body)).json()["scores"]
            assert score["score"] == score["label_scores"]["LABEL_2"]

    play(scenario)


def _route(primitive: str, folder: Path) -> str:
    return f"/v1/{primitive}/{quote(str(folder), safe='')}"


def test_a_model_is_unloaded_to_host_memory_or_altogether(tmp_path: Path) -> None:
    save_model(tmp_path, BertModel(bert_config()))
    body = {"items": [{"text": "one two"}]}

    async def scenario() -> None:
        async with serving(tmp_path) as client:

            async def vector() -> list[float]:
                answer = await client.post(_route("encode", tmp_path), json=body)
                values: list[float] = answer.json()["items"][0]["dense"]["values"]
                return values

            async def unload(tier: str) -> tuple[int, int]:
                answer = await client.post(
                    f"{_route('models', tmp_path)}/unload", json={"tier": tier, "wait_s": 20}
                )
                (device,) = answer.json()["devices"]
                return len(device["models"]), len(device["host"]["models"])

            first = await vector()
            assert await unload("host") == (0, 1)
            card = (await client.get(_route("models", tmp_path))).json()
            assert (card["state"], card["loaded"]) == ("host", False)
            assert card["host_bytes"] > 0
            assert await vector() == first
            assert await unload("all") == (0, 0)
            assert (await client.get(_route("models", tmp_path))).status_code == 404
            assert await vector() == first

    play(scenario)


def test_a_blank_text_holds_no_entity_and_does_not_fail_the_others(tmp_path: Path) -> None:
    """Case T55, as it is sent."""
    save_gliner_of_names(tmp_path)
    texts = ["Ann met Bob.", "", "  \tCarl\n", "İstanbul 👩‍👩‍👧 Dora", " \n", "é Eve"]

    async def scenario() -> None:
        async with serving(tmp_path) as client:
            for sent in (texts, [""], ["", " "]):
                body = {
                    "items": [{"text": text} for text in sent],
                    "params": {"labels": ["name"]},
                }
                answer = await client.post(_route("extract", tmp_path), json=body)
                assert answer.status_code == 200, answer.text
                found = [
                    [text[one["start"] : one["end"]] for one in item["entities"]]
                    for text, item in zip(sent, answer.json()["items"], strict=True)
                ]
                names = [["Ann", "Bob"], [], ["Carl"], ["Dora"], [], ["Eve"]]
                assert found == (names if sent is texts else [[]] * len(sent))

    play(scenario)


def test_a_blank_text_has_no_class(tmp_path: Path) -> None:
    save_model(tmp_path, BertForSequenceClassification(bert_config(num_labels=3)))

    async def scenario() -> None:
        async with serving(tmp_path) as client:
            body = {"items": [{"text": "alpha"}, {"text": " "}]}
            answer = await client.post(_route("extract", tmp_path), json=body)
            assert answer.status_code == 400
            assert "items[1].text is empty" in answer.json()["error"]["message"]

    play(scenario)
