"""Images behind the worker's routes: as a caller sends them, and what is refused."""

import base64
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import numpy as np
import pytest
from transformers import BertModel

from sie_mcp.engine.request_checks import IMAGE_TOKENS, Limits, check, estimated_tokens
from sie_mcp.errors import InvalidInput
from tests.engine.conftest import play
from tests.engine.test_checkpoints_over_http import serving
from tests.parity.image_towers import FILES, PAIRS, save_pair
from tests.parity.run import load
from tests.picture_files import encode_images, match_images, noise, saved
from tests.running import run
from tests.tiny import bert_config, save_model

LIMITS = Limits(200, 10_000, 30.0, max_image_bytes=1_000)
SMALL = saved(noise(4, 4))


def as_json(data: bytes) -> dict[str, Any]:
    return {"images": [{"data": base64.b64encode(data).decode()}]}


async def post(client: httpx2.AsyncClient, primitive: str, folder: Path, body: Any) -> Any:
    response = await client.post(f"/v1/{primitive}/{quote(str(folder), safe='')}", json=body)
    return response.status_code, response.json()


@pytest.mark.parametrize("pair", [PAIRS[0], PAIRS[4]], ids=["clip", "siglip2"])
def test_texts_and_images_go_through_one_queue_and_come_back_in_order(
    pair: Any, tmp_path: Path
) -> None:
    save_pair(pair, tmp_path)
    files = FILES[2:5]
    expected = run(load(tmp_path), encode_images(files)).items

    async def scenario() -> None:
        async with serving(tmp_path) as client:
            items = [as_json(files[0]), {"text": "alpha"}, as_json(files[1]), as_json(files[2])]
            status, answer = await post(client, "encode", tmp_path, {"items": items})
            assert status == 200, answer
            found = [one["dense"]["values"] for one in answer["items"]]
            for place, one in zip((0, 2, 3), expected, strict=True):
                assert np.abs(np.array(found[place]) - one.dense.values).max() <= 1e-5
            counted = [one["num_tokens"] for one in answer["items"]]
            assert answer["usage"]["input_tokens"] == sum(counted)
            status, answer = await post(
                client,
                "extract",
                tmp_path,
                {"items": items[:1], "params": {"labels": ["alpha", "beta"]}},
            )
            assert {one["label"] for one in answer["items"][0]["classifications"]} == {
                "alpha",
                "beta",
            }
            body = {"query": {"text": "alpha"}, "items": [as_json(one) for one in files]}
            status, answer = await post(client, "score", tmp_path, body)
            assert [one["rank"] for one in answer["scores"]] == [0, 1, 2]
            bad = {"items": [as_json(b"no picture"), as_json(files[0])]}
            status, answer = await post(client, "encode", tmp_path, bad)
            assert status == 200
            assert answer["items"][0]["error"]["code"] == "INVALID_IMAGE"
            assert "dense" in answer["items"][1]

    play(scenario)


def test_a_model_of_texts_refuses_images_and_names_others(tmp_path: Path) -> None:
    save_model(tmp_path, BertModel(bert_config()))

    async def scenario() -> None:
        async with serving(tmp_path) as client:
            status, answer = await post(client, "encode", tmp_path, {"items": [as_json(SMALL)]})
            assert status == 400
            assert "reads texts, not images; models that do:" in answer["error"]["message"]

    play(scenario)


def test_a_url_is_refused_and_not_fetched(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as client:
            body = {"items": [{"image": "http://127.0.0.1/a.png"}]}
            status, answer = await post(client, "encode", tmp_path, body)
            assert status == 400
            assert "URLs are not fetched" in answer["error"]["message"]

    play(scenario)


def test_an_image_is_checked_before_a_model_is_brought_up() -> None:
    check(encode_images([SMALL]), LIMITS)
    large = encode_images([SMALL, bytes(1_001)])
    with pytest.raises(
        InvalidInput, match=r"items\[1\].images has 1,001 bytes, the limit is 1,000"
    ):
        check(large, LIMITS)
    both = encode_images([SMALL])
    both.items[0].text = "a"
    with pytest.raises(InvalidInput, match="a text and an image"):
        check(both, LIMITS)
    two = encode_images([SMALL])
    two.items[0].images = [*two.items[0].images, *two.items[0].images]
    with pytest.raises(InvalidInput, match="2 images; send one an item"):
        check(two, LIMITS)
    query = match_images("a", [SMALL]).model_copy(update={"query": large.items[1]})
    with pytest.raises(InvalidInput, match=r"query\.images has"):
        check(query, LIMITS)


def test_an_image_counts_in_what_is_expected_of_a_request() -> None:
    assert estimated_tokens(encode_images([SMALL, SMALL])) == 2 * IMAGE_TOKENS
