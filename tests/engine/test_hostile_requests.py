"""Cases T47 and T49 over HTTP, with the real loader: hostile names and items, visible decisions."""

import threading

import pytest
import torch

from sie_mcp.catalogue.entries import Catalogue
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.registry import Registry
from tests.engine.conftest import http, play, running
from tests.parity.checkpoints import save
from tests.parity.table import ROWS
from tests.tiny import change_json

BY_NAME = {row.name: row for row in ROWS}
BODY = {"items": [{"text": "alpha beta"}]}


class RealLoader(CheckpointLoader):
    """Reads checkpoints; has the gates that the rig opens at the end."""

    def __init__(self, folder, allow_remote_code=()) -> None:
        registry = Registry(Catalogue(models=()), folder, FetchOptions(offline=True))
        super().__init__(registry, torch.device("cpu"), torch.float32, allow_remote_code)
        self.gate, self.forward_gate = threading.Event(), None


@pytest.mark.parametrize(
    "name",
    [
        "../../etc",
        "%2e%2e%2f%2e%2e%2fetc",
        "..%2F..%2Fetc",
        "/etc",
        "~root",
        "./../etc",
        "..",
        "a/../b",
    ],
)
def test_a_name_that_leaves_the_models_is_the_caller_s_error(name, tmp_path):
    async def scenario():
        async with running(tmp_path, RealLoader(tmp_path)) as rig, http(rig) as client:
            for answer in (
                await client.post(f"/v1/encode/{name}", json=BODY),
                await client.post(
                    "/v1/embeddings", json={"model": name.replace("%2e", "."), "input": "x"}
                ),
                await client.post(
                    "/v1/rerank", json={"model": name, "query": "q", "documents": ["x"]}
                ),
            ):
                assert 400 <= answer.status_code < 500
                assert "passwd" not in answer.text

    play(scenario)


@pytest.mark.parametrize("field", ["image", "images", "image_url", "url"])
def test_an_item_that_names_an_address_is_refused(field, tmp_path):
    address = "http://169.254.169.254/latest/meta-data"

    async def scenario():
        async with running(tmp_path, RealLoader(tmp_path)) as rig, http(rig) as client:
            for value in (address, [address], {"url": address}):
                body = {"items": [{"text": "x", field: value}]}
                answer = await client.post("/v1/encode/any", json=body)
                assert answer.status_code == 400
                assert f"items.0.{field}" in answer.json()["error"]["message"]

    play(scenario)


def test_a_model_with_code_of_its_own_is_refused_over_http_and_in_the_listing(tmp_path):
    folder = tmp_path / "toy"
    save(BY_NAME["albert"], "dense", folder)
    change_json(folder, "config.json", auto_map={"AutoModel": "modeling.Toy"})
    (folder / "modeling.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")

    async def scenario():
        async with running(tmp_path, RealLoader(tmp_path)) as rig, http(rig) as client:
            answer = await client.post(f"/v1/encode/{folder}", json=BODY)
            assert answer.status_code == 502
            assert answer.json()["error"]["code"] == "MODEL_LOAD_FAILED"
            assert f"put '{folder}' into SIE_MCP_ALLOW_REMOTE_CODE" in answer.text
            (card,) = [
                one
                for one in (await client.get("/v1/models")).json()["models"]
                if one["name"] == str(folder)
            ]
            assert card["last_error"]["permanent"] is True
            assert not (tmp_path / "ran").exists()

    play(scenario)


def test_code_runs_only_for_the_very_name_that_is_allowed(tmp_path):
    folder = tmp_path / "toy"
    save(BY_NAME["albert"], "dense", folder)
    change_json(folder, "config.json", auto_map={"AutoModel": "modeling.Toy"})
    for allowed, message in (
        ([str(folder)], "modeling.py, which was not fetched"),
        ([str(tmp_path)], "was not run"),
        (["toy", f"{folder}/", "*"], "was not run"),
    ):
        with pytest.raises(Exception, match=message):
            RealLoader(tmp_path, allowed).plan(str(folder))


@pytest.mark.parametrize("name", ["bert", "albert"])
def test_decisions_and_the_padded_path_are_in_the_listing(name, tmp_path):
    folder = tmp_path / "m"
    save(BY_NAME[name], "dense", folder)
    (folder / "modules.json").unlink()

    async def scenario():
        loader = RealLoader(tmp_path)
        async with running(tmp_path, loader, budget=10**9) as rig, http(rig) as client:
            answer = await client.post(f"/v1/encode/{folder}", json=BODY)
            assert answer.status_code == 200
            card = (await client.get(f"/v1/models/{folder}")).json()
            assert card["packed"] is (name == "bert")
            assert ("architecture" in card["decisions"]) is (name != "bert")
            assert card["decisions"]["pooling"].startswith("mean (default of an encoder")

    play(scenario)
