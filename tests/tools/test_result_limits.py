"""No answer of any tool is longer than the setting says, whatever it is given."""

import json
import random
import re

import pytest

from sie_mcp import wire
from sie_mcp.tools.registry import build_tools
from sie_mcp.tools.result import estimate_tokens
from tests.tools.conftest import Toolbox
from tests.tools.test_looking import Seer
from tests.tools.test_structured import Schemer

pytestmark = pytest.mark.anyio
# A setting and what the texts are drawn by.
LIMITS = [(500, 0), (4_000, 1), (25_000, 2)]
WORDS = 'Anna Bob Chen FAIL wrote to an office about 030 1234567 or ann@example.org, 中文 " \\ \n é'

# Tools whose model reads a schema.
SEEING = ("detect_objects", "describe_image")
SCHEMED = ("extract_structured", "extract_relations")
RECORD = {"title": "record", "properties": {"who": {"type": "string"}, "where": {"type": "string"}}}


def texts(
    chance: random.Random, count: int, num_words: int, words: str = WORDS
) -> list[dict[str, str]]:
    """Long texts with long ids, entities, quotes, failures, and letters of several bytes."""
    return [
        {
            "id": f"{'id' * 20}{n}",
            "text": " ".join(chance.choices(words.split(" "), k=num_words)) + ".",
        }
        for n in range(count)
    ]


def calls(chance: random.Random) -> dict[str, list[dict[str, object]]]:
    """Calls of each tool that ask for as much as its arguments let them."""
    many = texts(chance, 900, 30)
    long = texts(chance, 30, 900, WORDS.replace("FAIL", "fails"))
    query = {"query": "Who wrote to the office? " * 20}
    labels = [f"{'category ' * 10}{n} > {'part ' * 10}{m}" for n in range(20) for m in range(20)]
    return {
        "rerank": [
            {**query, "documents": given, "top_k": 100, "return_text": with_text}
            for given in (many, long)
            for with_text in (False, True)
        ],
        "filter_context": [
            {**query, "texts": given, "max_tokens": 100_000, "prose": prose}
            for given in (many, long)
            for prose in (False, True)
        ],
        "search_files": [
            {**query, "paths": ["docs"], "top_k": 20, "max_tokens": 100_000, "rerank": reranked}
            for reranked in (False, True)
        ],
        "classify_taxonomy": [
            {"texts": many, "taxonomy": labels, "top_k": 20, "min_score": 2.0},
            {"texts": many, "taxonomy": labels, "output_path": "a.jsonl"},
        ],
        "extract_entities": [
            {"texts": many},
            {"texts": long},
            {"texts": long, "output_path": "b.jsonl"},
        ],
        "embed": [
            {"texts": many, "top_k": 100},
            {"texts": many, "compare_to": long, "top_k": 100},
            {"texts": many, "return_vectors": True},
        ],
        "list_models": [{}, {"primitive": "score"}],
        "review_uncertain": [{"path": "classified.jsonl", "limit": 100}],
        "store_corrections": [
            {
                "path": "classified.jsonl",
                "corrections": [{"index": 0, "category": labels[0]}],
                "taxonomy": labels,
                "examples": "seen.csv",
            }
        ],
        "explain": [{"text": long[0]["text"], "taxonomy": labels, "top_k": 20}],
        "classify": [
            {"texts": many, "labels": labels[:50], "top_k": 20},
            {"texts": many, "labels": labels[:50], "output_path": "c.jsonl"},
        ],
        "extract_relations": [
            {"texts": related(many), "relations": ["knows", "works for"]},
            {"texts": related(long), "relations": ["knows"], "graph_path": "d.graphml"},
            {"texts": related(many), "relations": ["knows"], "output_path": "d.jsonl"},
        ],
        "extract_structured": [
            {"texts": records(many), "schema": RECORD, "spans": True},
            {"texts": records(many), "schema": RECORD, "output_path": "e.jsonl"},
        ],
        "detect_pii": [
            {"texts": many},
            {"texts": long},
            {"texts": many, "output_path": "f.jsonl"},
        ],
        "redact": [{"texts": many}, {"texts": long}, {"texts": many, "output_path": "g.jsonl"}],
        "find_similar": [
            {"text": long[0]["text"], "paths": ["docs"], "limit": 100, "max_tokens": 100_000}
        ],
        "deduplicate": [
            {"texts": many, "threshold": 0.5},
            {"texts": many, "output_path": "h.jsonl"},
        ],
        "cluster": [{"texts": many}, {"texts": many, "output_path": "i.jsonl"}],
        "search_images": [{"query": "office", "top_k": 100}],
        "classify_images": [
            {"labels": ["office", "Anna"], "paths": ["pictures"]},
            {"labels": ["office"], "paths": ["pictures"], "output_path": "j.jsonl"},
        ],
        "detect_objects": [
            {"labels": ["office", "Anna", *labels[:20]], "paths": ["pictures"]},
            {"labels": ["office"], "paths": ["pictures"], "output_path": "k.jsonl"},
        ],
        "describe_image": [
            {"paths": ["pictures"]},
            {"paths": ["pictures"], "output_path": "l.jsonl"},
        ],
        "map_taxonomy": [
            {"source": labels[:40], "target": labels, "output_path": "m.jsonl"},
        ],
    }


def related(given: list[dict[str, str]]) -> list[str]:
    """Texts in which everybody is related to the next."""
    return [re.sub(r"(\w+) (\w+)", r"\1 -> \2", one["text"]) for one in given]


def records(given: list[dict[str, str]]) -> list[str]:
    """Texts that are records of long values, with a failure."""
    return [f"record who:{one['text']};where:an office" for one in given]


def fill(toolbox: Toolbox, chance: random.Random) -> None:
    """Write what tools read that take no texts."""
    for folder in ("docs", "pictures"):
        (toolbox.folder / folder).mkdir()
    for number, text in enumerate(texts(chance, 60, 300, WORDS.replace("FAIL", "went"))):
        toolbox.write(f"docs/{'n' * 50}{number}.md", text["text"])
    for number in range(120):
        toolbox.write(f"pictures/{'p' * 50}{number}.jpg", f"Anna in an office, number {number}")
    rows = [
        {"index": n, "path": "a > " * 20, "confidence": 0.5, "text": "long " * 16}
        for n in range(200)
    ]
    toolbox.write("classified.jsonl", "\n".join(json.dumps(row) for row in rows))


@pytest.mark.parametrize(("limit", "seed"), LIMITS)
@pytest.mark.parametrize("name", [tool.name for tool in build_tools()])
async def test_no_answer_is_longer_than_the_setting(
    toolbox: Toolbox, name: str, limit: int, seed: int
) -> None:
    chance = random.Random(seed)
    toolbox.settings = {"max_result_tokens": limit}
    if name in SCHEMED:
        toolbox.worker = Schemer()
    if name in SEEING:
        toolbox.worker = Seer()
    toolbox.worker.extra_cards += [
        wire.ModelCard(
            name=f"organisation/model-{n}",
            primitives=["score"],
            labels=[f"LABEL_{m}" for m in range(200)],
            description="What it does. " * 50,
        )
        for n in range(500)
    ]
    fill(toolbox, chance)
    for arguments in calls(chance)[name]:
        async with toolbox.client() as client:
            result = await client.call_tool(name, arguments)
        (block,) = result.content
        assert not result.is_error, block.text
        assert estimate_tokens(block.text) <= limit
        if arguments.get("prose"):
            assert result.structured_content is None
        else:
            assert json.loads(block.text) == result.structured_content
