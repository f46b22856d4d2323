"""Every route for vectors through a gateway that keeps them: the answer is a worker's own."""

from pathlib import Path

import httpx2
import pytest

from sie_mcp.catalogue.entries import Catalogue
from tests.dialects.rig import gateway, worker

pytestmark = pytest.mark.anyio
TEXTS = ["morning coffee", "river stone " * 40, "a chair"]
ROUTES = [
    ("/v1/encode/m3", {"items": [{"text": one} for one in TEXTS]}),
    ("/v1/embeddings", {"model": "m3", "input": TEXTS, "dimensions": 8}),
    ("/v1/embeddings", {"model": "m3", "input": [[5, 6, 7]], "encoding_format": "base64"}),
    ("/v2/embed", {"texts": TEXTS, "input_type": "search_query"}),
    ("/v2/embed", {"texts": TEXTS[:2], "embedding_types": ["float", "int8"]}),
    ("/embed", {"inputs": TEXTS}),
    ("/embed_all", {"inputs": TEXTS[:1]}),
    ("/embed_sparse", {"inputs": TEXTS}),
    ("/similarity", {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}}),
    ("/pooling", {"model": "m3", "input": TEXTS, "task": "embed"}),
]  # fmt: skip
OTHERS = [
    ("/rerank", {"query": TEXTS[0], "texts": TEXTS[1:]}),
    ("/v1/extract/ner", {"items": [{"text": TEXTS[0]}]}),
]
WRONG = [
    ("/v1/encode/m3", {"items": [{"text": "a"}, {"text": " "}]}),
    ("/v1/encode/no-such", {"items": [{"text": "a"}]}),
    ("/embed", {"inputs": ["a", "river stone " * 9_000], "truncate": False}),
    ("/v1/embeddings", {"model": "m3", "input": ["a"] * 10_000}),
]
# What no two answers have alike.
_OWN = {"timing", "id", "created"}


def plain(answer: httpx2.Response) -> object:
    body = answer.json()
    return {k: v for k, v in body.items() if k not in _OWN} if isinstance(body, dict) else body


async def test_answers_from_the_cache_are_a_workers_own(
    folder: Path, catalogue: Catalogue, tmp_path: Path
) -> None:
    settings = {"embedding_cache_bytes": 10_000_000, "embedding_cache_file": tmp_path / "kept"}
    async with (
        worker(folder, catalogue) as worker_url,
        gateway(worker_url, **settings) as gateway_url,
        httpx2.AsyncClient(base_url=worker_url, timeout=60) as direct,
        httpx2.AsyncClient(base_url=gateway_url, timeout=60) as through,
    ):
        for path, body in ROUTES:
            own = await direct.post(path, json=body)
            assert own.status_code == 200, own.text
            first, again = [await through.post(path, json=body) for _ in range(2)]
            assert plain(first) == plain(own), path
            assert plain(again) == plain(own), path
            assert again.headers["x-sie-cache"].endswith("misses=0"), path
            for header in ("model", "units-input-tokens", "truncated-items", "model-revision"):
                assert again.headers[f"x-sie-{header}"] == own.headers[f"x-sie-{header}"], path
        for path, body in OTHERS:
            own, handed = await direct.post(path, json=body), await through.post(path, json=body)
            assert plain(handed) == plain(own)
            assert "x-sie-cache" not in handed.headers
        for path, body in WRONG:
            own, refused = await direct.post(path, json=body), await through.post(path, json=body)
            assert own.status_code >= 400, path
            assert (refused.status_code, plain(refused)) == (own.status_code, plain(own))


async def test_a_model_s_revision_is_that_of_its_files(
    folder: Path, catalogue: Catalogue, tmp_path: Path
) -> None:
    async with (
        worker(folder, catalogue) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as direct,
    ):
        assert (await direct.get("/v1/revision/m3")).json() == {"model": "m3"}
        answer = await direct.post("/embed", json={"inputs": "a", "model": "m3"})
        named = (await direct.get("/v1/revision/m3")).json()
        assert named == {"model": "m3", "revision": answer.headers["x-sie-model-revision"]}
        assert (await direct.get("/v1/models/m3")).json()["revision"] == named["revision"]
        assert (await direct.get("/v1/revision/m3?lora=not/up")).json() == {"model": "m3"}
