"""`cluster`, as an agent calls it, over a real store and a fake worker."""

import json

import numpy as np
import pytest

from sie_mcp.tools import grouping
from sie_mcp.tools.cluster_words import distinguishing_words
from tests.tools.conftest import Toolbox
from tests.tools.searched_files import encoded, fill

pytest.importorskip("lancedb")
pytestmark = pytest.mark.anyio
TOPICS = {
    "card": "my card was lost please send another card",
    "loan": "what interest does the loan for a house have",
    "app": "the app crashes when it starts on the phone",
}
TEXTS = [f"{text} {word}{n}" for n in range(8) for word, text in TOPICS.items()]


async def test_topics_become_clusters_with_words_and_examples(toolbox: Toolbox) -> None:
    answer = await toolbox.call("cluster", texts=TEXTS)
    assert (answer["num_clusters"], answer["count"]) == (3, 24)
    assert [one["size"] for one in answer["clusters"]] == [8, 8, 8]
    for number, (found, word) in enumerate(zip(answer["clusters"], TOPICS, strict=True)):
        assert found["cluster"] == number
        assert word in found["words"] and "the" not in found["words"]
        assert len(found["examples"]) == 3
        assert all(TOPICS[word] in one["text"] for one in found["examples"])
    assert answer["separation"] > 0.5
    assert await toolbox.call("cluster", texts=TEXTS) == answer


async def test_every_row_is_written_with_its_cluster(toolbox: Toolbox) -> None:
    path = toolbox.write("rows.txt", "\n".join([*TEXTS, "zebra quagga okapi"]))
    answer = await toolbox.call("cluster", path=path, num_clusters=3, output_path="out.jsonl")
    rows = [json.loads(line) for line in (toolbox.folder / "out.jsonl").read_text().splitlines()]
    assert answer["num_written"] == len(rows) == 25
    assert answer["num_noise"] == 1
    assert (rows[24]["cluster"], rows[24]["index"]) == (-1, 24)
    assert {row["cluster"] for row in rows[:24]} == {0, 1, 2}
    assert len({row["cluster"] for row in rows[:24:3]}) == 1
    encoded(toolbox)
    answer = await toolbox.call("cluster", path=path, num_clusters=3, noise=False, examples=0)
    assert encoded(toolbox) == []
    assert "num_noise" not in answer
    assert sum(one["size"] for one in answer["clusters"]) == 25


async def test_files_of_a_folder_are_clustered(toolbox: Toolbox) -> None:
    fill(toolbox, {f"{n:02}.md": text for n, text in enumerate(TEXTS)})
    answer = await toolbox.call("cluster", path=".", examples=1)
    assert (answer["unit"], answer["num_clusters"]) == ("file", 3)
    assert answer["clusters"][0]["examples"][0]["path"].endswith(".md")


async def test_few_texts_and_equal_ones(toolbox: Toolbox) -> None:
    answer = await toolbox.call("cluster", texts=["one text"])
    assert (answer["num_clusters"], "separation" in answer) == (1, False)
    answer = await toolbox.call("cluster", texts=["same words"] * 9, num_clusters=3)
    assert [one["size"] for one in answer["clusters"]] == [9]
    assert len(answer["clusters"][0]["examples"]) == 1
    assert "there are 2 texts" in await toolbox.error("cluster", texts=["a", "b"], num_clusters=3)


async def test_what_does_not_fit_the_answer_is_counted(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 500}
    texts = [f"topic{n} word{n} thing{n} number {m}" for n in range(30) for m in range(3)]
    answer = await toolbox.call("cluster", texts=texts, num_clusters=30)
    assert answer["omitted"] + len(answer["clusters"]) == answer["num_clusters"] > 20
    assert "output_path" in answer["hint"]


async def test_progress_is_told(toolbox: Toolbox) -> None:
    await toolbox.call("cluster", texts=TEXTS)
    assert {"finding how many clusters there are", "finding 3 clusters"} <= {
        report[2] for report in toolbox.reports
    }


def test_silhouette_is_that_of_all_pairs() -> None:
    random = np.random.default_rng(3)
    vectors = random.normal(size=(40, 6)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    labels = np.array([0] * 20 + [1] * 19 + [2])
    distances = 1 - vectors @ vectors.T
    expected = []
    for row, own in enumerate(labels):
        means = [distances[row, labels == one].mean() for one in range(3)]
        size = (labels == own).sum()
        if size == 1:
            expected.append(0.0)
            continue
        inside = distances[row, labels == own].sum() / (size - 1)
        outside = min(mean for one, mean in enumerate(means) if one != own)
        expected.append((outside - inside) / max(inside, outside))
    assert np.allclose(grouping.silhouette(vectors, labels), expected, atol=1e-4)


def test_groups_are_found_and_the_number_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "SAMPLE", 300)
    random = np.random.default_rng(5)
    centres = random.normal(size=(12, 32))
    vectors = np.repeat(centres, 50, axis=0) + random.normal(size=(600, 32)) * 0.3
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    some = grouping.sample(vectors)
    assert len(some) == 300
    values = {
        num: float(grouping.silhouette(some, grouping.group(some, num).labels).mean())
        for num in grouping.candidates(len(some))
    }
    assert grouping.choose(values) == 12
    labels = grouping.group(vectors, 12, starts=3).labels.reshape(12, 50)
    assert all(len(set(row)) == 1 for row in labels.tolist())
    assert len(set(labels[:, 0].tolist())) == 12


def test_clusters_that_never_settle_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "MAX_ROUNDS", 1)
    vectors = np.random.default_rng(2).normal(size=(500, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = grouping.group(vectors, 20)
    assert set(found.labels.tolist()) == set(range(20))
    lengths = np.linalg.norm(found.centres, axis=1)
    cosines = (vectors @ found.centres.T) / lengths
    assert np.allclose(found.similarity, cosines[np.arange(500), found.labels], atol=1e-5)


def test_words_of_every_text_and_of_one_text_are_no_label() -> None:
    texts = ["the cat sleeps", "the cat eats once", "the dog barks", "the dog sleeps 77 77"]
    words = distinguishing_words(texts, [0, 0, 1, 1], 2, 5)
    assert words == [["cat"], ["dog"]]
