"""`classify`, as an agent calls it: by cosines, by models that read labels, and what is refused."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.errors import InvalidInput, ModelNotFound
from sie_mcp.tools.decision import COSINE_TEMPERATURE
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker

pytestmark = pytest.mark.anyio
LABELS = ["lost card", "wrong transfer", "new address"]
TEXTS = ["i lost my card", "a wrong transfer was made", "please note my new address"]
CARDS = {
    "toy-zero-shot": (["extract"], ["classifications"], None),
    "toy-nli": (["extract", "score"], ["classifications"], ["entailment", "neutral"]),
    "toy-mood": (["extract", "score"], ["classifications"], ["glad", "sad"]),
    "org/mood": (["extract", "score"], ["classifications"], ["glad", "sad"]),
    "toy-schemer": (["extract"], ["entities", "classifications", "records"], None),
    "toy-reranker": (["score"], ["score"], None),
}


class Judges(FakeWorker):
    """Also has models that classify: a label scores by the words it shares with a text."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[wire.ExtractParams] = []
        self.used: set[str] = set()

    async def model(self, name: str) -> wire.ModelCard:
        if name not in CARDS:
            return await super().model(name)
        if name not in self.used and name == "org/mood":
            raise ModelNotFound("others appear once they are used")
        primitives, outputs, labels = CARDS[name]
        # Before it is loaded nobody knows its labels.
        is_up = name in self.used or "extract" not in primitives
        return wire.ModelCard(
            name=name,
            primitives=primitives,
            outputs=outputs,
            labels=labels if is_up else None,
            state="loaded" if is_up else "available",
        )

    async def extract(self, model: str, items: Sequence[wire.Item], params: Any = None, **_: Any):
        self.used.add(model)
        if params is None:
            raise InvalidInput("send labels")
        self.asked.append(params)
        structure = params.options.structure
        asked = list(structure.classifications[0].labels) if structure else params.labels
        labels = asked or CARDS[model][2]
        return wire.ExtractResponse(
            model=model, items=[self._judged(item.text or "", labels) for item in items]
        )

    def _judged(self, text: str, labels: list[str]) -> wire.ExtractedItem:
        if "FAIL" in text:
            return wire.ExtractedItem(error=wire.ItemError(code="X", message="no memory"))
        scores = {one: float(self.vector(text) @ self.vector(one)) for one in labels}
        best = sorted(labels, key=lambda one: -scores[one])
        found = [wire.Classification(label=one, score=scores[one]) for one in best]
        return wire.ExtractedItem(classifications=found)


@pytest.fixture
def worker() -> Judges:
    return Judges()


async def test_the_nearest_label_comes_with_a_probability_and_alternatives(
    toolbox: Toolbox,
) -> None:
    answer = await toolbox.call("classify", texts=TEXTS, labels=LABELS)
    assert answer["method"] == "similarity" and answer["model"] == "toy-embedder"
    assert [one["label"] for one in answer["results"]] == LABELS
    assert answer["counts"] == dict.fromkeys(LABELS, 1)
    first = answer["results"][0]
    vector = toolbox.worker.vector
    powers = np.exp([float(vector(TEXTS[0]) @ vector(one)) / COSINE_TEMPERATURE for one in LABELS])
    assert first["score"] == pytest.approx(powers[0] / powers.sum(), abs=1e-4)
    assert len(first["alternatives"]) == 2


async def test_a_description_is_read_and_the_label_is_answered(toolbox: Toolbox) -> None:
    labels = {"A": "a lost card", "B": "a wrong transfer"}
    answer = await toolbox.call("classify", texts=TEXTS[:2], labels=labels)
    assert [one["label"] for one in answer["results"]] == ["A", "B"]
    answer = await toolbox.call("classify", texts=TEXTS[:2], labels=labels, model="toy-zero-shot")
    assert [one["label"] for one in answer["results"]] == ["A", "B"]
    assert toolbox.worker.asked[-1].labels == ["A: a lost card", "B: a wrong transfer"]


@pytest.mark.parametrize("multi_label", [False, True])
async def test_a_model_of_schemas_is_asked_by_one(toolbox: Toolbox, multi_label: bool) -> None:
    """GLiNER2 takes plain labels for entities; a question about a text has a form of its own."""
    labels = {"lost card": "it is gone", "wrong transfer": ""}
    call = {"texts": TEXTS[:2], "labels": labels, "model": "toy-schemer"}
    answer = await toolbox.call("classify", **call, multi_label=multi_label)
    assert answer["method"] == "zero_shot"
    first = answer["results"][0]
    assert (first["labels"][0] if multi_label else first)["label"] == "lost card"
    params = toolbox.worker.asked[-1]
    (asked,) = params.options.structure.classifications
    assert asked.labels == labels and asked.multi_label is multi_label
    assert params.labels is None and params.options.multi_label is None
    many = [f"label {n}" for n in range(101)]
    text = await toolbox.error("classify", **call | {"labels": many})
    assert "toy-schemer takes 100 labels in a question, not 101; leave model out" in text


async def test_under_the_bound_no_label_is_given(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "classify", texts=["nothing of it", TEXTS[0]], labels=LABELS, abstain_below=0.5
    )
    first, second = answer["results"]
    assert first["abstained"] and "label" not in first and len(first["alternatives"]) == 3
    assert second["label"] == "lost card" and answer["num_abstained"] == 1
    assert answer["counts"] == {"lost card": 1}


async def test_labels_too_alike_are_named(toolbox: Toolbox) -> None:
    words = "stop the order that is on its way to me now"
    labels = {"cancel": words, "abort": words + " please", "pay": "money"}
    answer = await toolbox.call("classify", texts=["stop"], labels=labels)
    (overlap,) = answer["overlaps"]
    assert {overlap["a"], overlap["b"]} == {"cancel", "abort"} and overlap["score"] > 0.8
    named = await toolbox.call("classify", texts=["stop"], labels=labels, model="toy-zero-shot")
    assert named["overlaps"] == answer["overlaps"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["Lost card", "lost_card"], "labels 'Lost card' and 'lost_card' are the same but for"),
        (["one"], "compares labels with each other; send at least two"),
        ([], "needs labels of yours"),
        ([" ", "a"], "labels[0] is empty; send at least one non-space character"),
        (["a", ""], "labels[1] is empty; send at least one non-space character"),
        ([str(number) for number in range(1_001)], "the limit is 1,000"),
    ],
)
async def test_labels_that_cannot_be_told_apart_are_refused(
    toolbox: Toolbox, labels: list[str], message: str
) -> None:
    assert message in await toolbox.error("classify", texts=TEXTS, labels=labels)


async def test_several_labels_hold_where_a_model_judges_each_alone(toolbox: Toolbox) -> None:
    arguments = {"labels": LABELS, "multi_label": True}
    text = await toolbox.error("classify", texts=TEXTS, **arguments)
    assert "multi_label needs a GLiClass or NLI model" in text
    answer = await toolbox.call(
        "classify",
        texts=["lost card wrong transfer", "hello"],
        model="toy-zero-shot",
        **arguments,
    )
    first, second = answer["results"]
    assert [one["label"] for one in first["labels"]] == ["lost card", "wrong transfer"]
    assert second["labels"] == [] and toolbox.worker.asked[-1].options.multi_label


async def test_a_template_makes_hypotheses_for_a_model_of_inference(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "classify", texts=TEXTS, labels=LABELS, model="toy-nli", template="About {}."
    )
    assert answer["method"] == "hypothesis"
    assert toolbox.worker.asked[-1].options.hypothesis_template == "About {}."
    text = await toolbox.error("classify", texts=TEXTS, labels=LABELS, template="About")
    assert "must hold {} once" in text
    text = await toolbox.error(
        "classify", texts=TEXTS, labels=LABELS, model="toy-mood", template="{}"
    )
    assert "toy-mood takes no template" in text


@pytest.mark.parametrize("model", ["toy-mood", "org/mood"])
async def test_a_classifier_gives_its_own_labels_even_if_nobody_used_it_yet(
    toolbox: Toolbox, model: str
) -> None:
    answer = await toolbox.call("classify", texts=["so sad"], model=model)
    assert answer["method"] == "own_labels" and answer["results"][0]["label"] == "sad"


async def test_a_model_that_cannot_is_refused_with_those_that_can(toolbox: Toolbox) -> None:
    text = await toolbox.error("classify", texts=TEXTS, labels=LABELS, model="toy-reranker")
    assert "toy-reranker labels no whole texts" in text and "GLiClass" in text


async def test_rows_go_to_a_file_and_the_least_sure_come_back(toolbox: Toolbox) -> None:
    toolbox.write("mail.csv", "text\n" + "\n".join([*TEXTS, "hello", "FAIL"]) + "\n")
    answer = await toolbox.call("classify", path="mail.csv", labels=LABELS, output_path="out.jsonl")
    rows = [json.loads(line) for line in (toolbox.folder / "out.jsonl").read_text().splitlines()]
    assert [row["label"] for row in rows[:3]] == LABELS
    assert "wrong transfer 0." in rows[0]["alternatives"]
    assert "results" not in answer and answer["failed"]["count"] == 1
    assert answer["least_sure"][0]["text"] == "hello"


async def test_many_texts_lose_their_alternatives_first(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 400}
    answer = await toolbox.call("classify", texts=TEXTS * 5, labels=LABELS)
    assert "alternatives" not in answer["results"][0]
    assert answer.get("omitted", 0) + len(answer["results"]) == 15
    assert "output_path" in answer["hint"]
