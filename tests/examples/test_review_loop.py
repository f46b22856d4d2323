"""The example that learns from corrections, with a scripted model: the tools and files are real."""

import csv
import shutil
from pathlib import Path
from typing import Any

import pytest

from examples.review_loop import EXAMPLES, improve
from tests.e2e.conftest import ROOT
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker

pytestmark = pytest.mark.anyio

# What the words alone cannot say, and what a person would.
RIGHT = {
    "Grain-free salmon kibble for adult cats 2 kg": "Pets > Cat food",
    "Leather leash for large dogs": "Pets > Dog leashes and collars",
    "Cast iron frying pan 28 cm": "Kitchen > Pots and pans",
    "Espresso machine with milk frother": "Kitchen > Coffee machines",
    "Cordless drill with two batteries": "Tools > Power tools",
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_second_round_is_better_than_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    for name in ("products.csv", "departments.txt"):
        shutil.copy(ROOT / "examples" / name, folder)
    toolbox = Toolbox(FakeWorker(), folder, tmp_path / "cache")
    shown: list[list[str]] = []

    async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await toolbox.call(name, **arguments)

    async def choose(text: str, categories: list[str]) -> str:
        shown.append(categories)
        return RIGHT.get(text, "")

    first, second = await improve(
        call,
        choose,
        folder,
        source={"path": "products.csv", "columns": ["title"]},
        taxonomy="departments.txt",
    )
    assert first.num_reviewed > 0 and all(len(set(one)) == len(one) for one in shown)
    with (folder / EXAMPLES).open(newline="") as file:
        assert {
            row["text"]: row["category"] for row in csv.DictReader(file)
        }.items() <= RIGHT.items()
    assert num_right(first.output_path) < num_right(second.output_path)
    assert second.num_unsure <= first.num_unsure and second.num_reviewed == 0


def num_right(file: str) -> int:
    """Count the products of which a person said where they belong, and that are there."""
    with Path(file).open(newline="") as rows:
        return sum(RIGHT.get(row["text"]) == row["path"] for row in csv.DictReader(rows))
