"""Pictures beside texts by a real CLIP of random weights: both towers, and what breaks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.catalogue.taxonomy import from_paths
from sie_mcp.client import Progress
from sie_mcp.config import Config
from sie_mcp.tools.categories.pictures import make_picture_reader
from sie_mcp.tools.context import ToolContext, tell_nobody
from sie_mcp.tools.node_vectors import NodeVectorStore
from tests.parity.image_towers import FILES, PAIRS, save_pair
from tests.parity.run import load
from tests.picture_files import encode_images
from tests.running import run
from tests.tools.categories.test_pictures import SEER
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker

pytestmark = pytest.mark.anyio
TREE = ["alpha > beta", "alpha > gamma " + " ".join(["river"] * 60), "stone > x"]


class SeeingWorker(FakeWorker):
    """Lets a real adapter answer for one model."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        save_pair(PAIRS[0], folder)
        self.adapter = load(folder)
        self.extra_cards = [SEER]

    async def encode(
        self,
        model: str,
        items: Sequence[wire.Item],
        params: wire.EncodeParams | None = None,
        *,
        progress: Progress | None = None,
    ) -> wire.EncodeResponse:
        if model != SEER.name:
            return await super().encode(model, items, params, progress=progress)
        found = run(self.adapter, wire.EncodeRequest(items=list(items), params=params))
        return wire.EncodeResponse(model=model, items=found.items)


@pytest.fixture
def seeing(toolbox: Toolbox, tmp_path: Path) -> Toolbox:
    folder = tmp_path / "clip"
    folder.mkdir()
    toolbox.worker = SeeingWorker(folder)
    for place, data in enumerate((*FILES[:2], FILES[0][:200])):
        toolbox.write(f"{place}.png", data)
    return toolbox


async def test_cosines_are_those_of_the_two_towers(seeing: Toolbox) -> None:
    config = Config(allow=(seeing.folder,), cache_dir=seeing.cache)
    context = ToolContext(seeing.worker, config)  # type: ignore[arg-type]
    store = NodeVectorStore(context.client, seeing.cache / "taxonomies")
    reader = await make_picture_reader(context, store, SEER.name, from_paths(TREE))
    seen = await reader.look(["1.png", "", "2.png", "0.png", "1.png"], tell_nobody)
    expected = run(seeing.worker.adapter, encode_images(FILES[:2], normalize=True)).items
    pictures = np.stack([one.dense.values for one in expected])
    cosines = seen.cosines([0, 1, 2, 3, 4])
    assert cosines is not None and list(seen.problems) == [2]
    wanted = pictures[[1, 0, 1]] @ reader.nodes.values.T
    assert np.abs(cosines[[0, 3, 4]] - wanted).max() <= 1e-6
    assert not cosines[[1, 2]].any() and seen.cosines([1, 2]) is None


async def test_a_broken_photo_is_said_and_the_others_count(seeing: Toolbox) -> None:
    texts = [{"text": "thing", "image": f"{place}.png"} for place in range(3)]
    answer = await seeing.call("classify_taxonomy", texts=texts, taxonomy=TREE, image_model="seer")
    errors = [row.get("image_error") for row in answer["results"]]
    assert errors[:2] == [None, None] and "broken or cut off" in errors[2]
    assert answer["image_model"] == "seer" and answer["failed_images"]["count"] == 1
