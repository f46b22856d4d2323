"""The curve of confidence that texts without labels give, on numbers made by hand."""

import json

import anyio
import numpy as np
import pytest

from sie_mcp.tools.categories import block_run, calibration, file_run
from sie_mcp.tools.categories.calibration import fit, opinions
from sie_mcp.tools.decision import PRODUCTS, Curve
from tests.tools.conftest import Toolbox
from tests.tools.test_classification import TwoModels

TREE = ["Kitchen", "Kitchen > Forks", "Kitchen > Knives", "Garden", "Garden > Rakes"]
CALL = {"path": "shop.csv", "columns": ["title"], "output_path": "out.jsonl", "taxonomy": TREE}


def test_a_curve_is_found_again_from_what_it_draws() -> None:
    random = np.random.default_rng(0)
    logs, true = -5 * random.random(4_000), Curve(1.2, 2.0)
    right = random.random(4_000) < [true.confidence(float(np.exp(one))) for one in logs]
    found = fit(logs, right.astype(float), PRODUCTS)
    assert (found.slope, found.offset) == pytest.approx((1.2, 2.0), abs=0.15)


def test_few_texts_move_the_curve_a_little_and_none_do_not() -> None:
    assert fit(np.zeros(0), np.zeros(0), PRODUCTS) == PRODUCTS
    found = fit(np.full(2, -1.0), np.zeros(2), PRODUCTS)
    assert 0 < found.confidence(0.3) < PRODUCTS.confidence(0.3)


def test_a_larger_share_is_never_less_sure() -> None:
    logs = np.linspace(-4, 0, 200)
    assert fit(logs, (logs < -2).astype(float), PRODUCTS).slope == 0


def test_a_fit_that_is_not_done_in_time_is_one_that_got_nearer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calibration, "_MAX_STEPS", 1)
    found = fit(np.full(50, -1.0), np.zeros(50), PRODUCTS)
    assert found.confidence(0.3) < PRODUCTS.confidence(0.3)


def test_models_agree_where_they_choose_the_same_node() -> None:
    first, second = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.6, 0.4], [0.7, 0.3]])
    logs, same = opinions([first, second])
    assert np.exp(logs) == pytest.approx(np.array([[0.9, 0.6], [0.8, 0.7]]))
    assert same.tolist() == [[1, 1], [0, 0]]


@pytest.fixture
def pair(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> Toolbox:
    """A shop of ten texts, two models, and small blocks that are enough to calibrate on."""
    monkeypatch.setattr(calibration, "MIN_TEXTS", 4)
    monkeypatch.setattr(file_run, "BLOCK_TEXTS", 4)
    toolbox.worker = TwoModels()
    things = ("forks", "knives", "rakes", "kitchen things", "garden")
    rows = [f"{thing} {lot}" for lot in (1, 2) for thing in things]
    (toolbox.folder / "shop.csv").write_text("\n".join(["title", *rows]) + "\n")
    return toolbox


@pytest.mark.anyio
async def test_many_texts_have_another_confidence_than_one_alone(pair: Toolbox) -> None:
    texts = ["forks", "knives", "rakes", "garden", "kitchen"]
    many = await pair.call("classify_taxonomy", texts=texts, taxonomy=TREE)
    same = await pair.call("classify_taxonomy", texts=[*texts, *texts], taxonomy=TREE)
    alone = await pair.call("classify_taxonomy", texts=texts[:1], taxonomy=TREE)
    assert many["results"][0]["path"] == alone["results"][0]["path"]
    assert many["results"][0]["confidence"] != alone["results"][0]["confidence"]
    assert same["results"][:5] == many["results"]


@pytest.mark.anyio
async def test_examples_count_as_texts_where_those_are_few(
    pair: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["forks steel,Kitchen > Forks", "knives,Kitchen > Knives", "rakes,Garden > Rakes"]
    pair.write("seen.csv", "\n".join(["text,category", *rows, "kitchen pots,Kitchen"]) + "\n")
    call = {"texts": ["forks"], "taxonomy": TREE, "examples": "seen.csv"}
    (fitted,) = (await pair.call("classify_taxonomy", **call))["results"]
    monkeypatch.setattr(calibration, "MIN_TEXTS", 6)
    (shipped,) = (await pair.call("classify_taxonomy", **call))["results"]
    assert fitted["path"] == shipped["path"] == "Kitchen > Forks"
    assert fitted["confidence"] != shipped["confidence"]


@pytest.mark.anyio
async def test_a_file_has_one_curve_through_all_its_calls(
    pair: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await pair.call("classify_taxonomy", **CALL)
    written = (pair.folder / "out.jsonl").read_bytes()
    (pair.folder / "out.jsonl").unlink()
    with monkeypatch.context() as patch, anyio.fail_after(60):
        patch.setattr("sie_mcp.tools.long_work.MARGIN_S", 1e6)
        assert (await pair.error("classify_taxonomy", **CALL)).startswith("4 of 10 texts")
    (journal,) = pair.folder.glob(".sie-*.journal")
    names = [json.loads(line[9:])[0] for line in journal.read_text().splitlines()[1:]]
    assert names.count(block_run.CURVE) == 1 and len(names) == 5
    answer = await pair.call("classify_taxonomy", **CALL)
    assert answer.pop("resumed") == 4 and answer == whole
    assert (pair.folder / "out.jsonl").read_bytes() == written


@pytest.mark.anyio
async def test_a_curve_that_is_none_is_told(pair: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sie_mcp.tools.categories.journal.Journal.__contains__", lambda _, name: name == "curve"
    )
    monkeypatch.setattr("sie_mcp.tools.categories.journal.Journal.__getitem__", lambda *_: ["x", 1])
    with anyio.fail_after(60):
        text = await pair.error("classify_taxonomy", **CALL)
    assert "is broken; delete it and call again" in text
