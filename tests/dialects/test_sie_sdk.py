"""SIE's SDK 0.10.1, unmodified, against a worker and against a gateway.

It needs Python 3.12: `make sie-sdk` installs it beside the project, or SIE_SDK_PYTHON names an
interpreter that has it.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytestmark = pytest.mark.anyio
DRIVER = Path(__file__).with_name("drive_sie_sdk.py")
PYTHON = Path(os.environ.get("SIE_SDK_PYTHON", DRIVER.parents[2] / ".sie-sdk/bin/python"))
LIMIT_S = 60.0
WORDS = ("nothing/here", "over the limit", "m3 can encode and score, not extract")


async def driven(url: str) -> dict[str, Any]:
    """Run the driver against a server and return what it printed."""
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(
        str(PYTHON), str(DRIVER), url, stdout=pipe, stderr=pipe, env={"PATH": os.environ["PATH"]}
    )
    async with asyncio.timeout(LIMIT_S):
        out, err = await program.communicate()
    assert program.returncode == 0, err.decode()
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.skipif(not PYTHON.exists(), reason="make sie-sdk installs it; it needs Python 3.12")
async def test_the_sdk_s_calls_work_on_both_doors(clients: list[httpx2.AsyncClient]) -> None:
    direct, through = [await driven(str(one.base_url)) for one in clients]
    assert direct["dense"] == through["dense"]
    for found in (direct, through):
        assert found["version"] == "0.10.1"
        assert found["ids"] == ["a", None]
        assert found["dtype"] == "float32"
        assert [len(vector) for vector in found["dense"]] == [32, 32]
        assert all(len(indices) == len(values) > 0 for indices, values in found["sparse"])
        assert all(rows > 0 and dims == 32 for rows, dims in found["multivector"])
        assert found["query"] != found["dense"][1]
        ranks = found["scores"]["scores"]
        assert {one["item_id"] for one in ranks} == {"x", "item-1"}
        assert [one["rank"] for one in ranks] == [0, 1]
        assert ranks[0]["score"] >= ranks[1]["score"]
        assert found["scores"]["usage"]["input_tokens"] > 0
        fields = {"entities", "relations", "classifications", "objects"}
        assert all(fields <= set(one) for one in found["entities"])
        assert sorted(found["labels"]) == ["LABEL_0", "LABEL_1", "LABEL_2"]
        assert set(found["models"]) == {"m3", "ce", "nli", "ner"}
        assert found["card"]["dense"] == 32
        kinds = [(name, code) for name, code, _ in found["errors"]]
        assert kinds == [
            ("RequestError", "MODEL_NOT_FOUND"),
            ("InputTooLongError", "INPUT_TOO_LONG"),
            ("RequestError", "INVALID_INPUT"),
        ]
        for (*_, message), words in zip(found["errors"], WORDS, strict=True):
            assert words in message
    _keep({"worker": direct, "gateway": through})


def _keep(found: dict[str, dict[str, Any]]) -> None:
    """Write what the SDK was given, where `SIE_SDK_RESULTS` names a file."""
    path = os.environ.get("SIE_SDK_RESULTS")
    if path is None:
        return
    kept = {
        "command": "make sie-sdk",
        "sdk": found["worker"]["version"],
        "calls": ["encode", "score", "extract", "list_models", "get_model"],
        "doors": {
            door: {
                "dense": [len(one) for one in got["dense"]],
                "sparse": [len(indices) for indices, _ in got["sparse"]],
                "multivector": got["multivector"],
                "scores": [one["item_id"] for one in got["scores"]["scores"]],
                "entities": len(got["entities"]),
                "labels": got["labels"],
                "models": got["models"],
                "errors": [code for _, code, _ in got["errors"]],
            }
            for door, got in found.items()
        },
    }
    Path(path).write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
