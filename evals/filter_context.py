"""Whether `filter_context` keeps the sentence that answers, and how much it leaves out.

Run `python -m evals.filter_context`. XQuAD's questions with their answer sentences, the tool called
through MCP, in three kinds of text: the one paragraph (five sentences on average), its article
(five paragraphs), and the paragraph among ten others, in an order from a fixed seed. The budget is
a share of each text's tokens. An answer counts as kept if the whole gold sentence is.

The tool's weights were chosen on the articles of even number; both halves are reported.
"""

import asyncio
import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from evals.agent_tasks.agent import TOKENIZER, Agent, agent, count_tokens
from evals.datasets import read_jsonl

SHARES = (0.30,)
LEAST_BUDGET = 50  # the tool's own
NUM_OTHERS, SEED = 10, 7
PARAGRAPHS_OF_AN_ARTICLE = 5
KINDS = ("paragraph", "article", "eleven paragraphs")
RESULTS = Path(__file__).parent / "results" / "filter_context"
TARGET_KEPT, TARGET_DROPPED = 0.97, 0.70


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its paragraph's place in the collection, and the answer sentence in it."""

    text: str
    paragraph: int
    start: int
    end: int

    @property
    def is_held_out(self) -> bool:
        """Whether nothing was chosen on it."""
        return self.paragraph // PARAGRAPHS_OF_AN_ARTICLE % 2 == 1


@dataclass(frozen=True, slots=True)
class Figures:
    """Over all questions of one kind of text and budget; shares of 1, and mean tokens.

    Attributes:
        possible: Share of the answer sentences that are no longer than the budget.
    """

    kind: str
    budget_share: float
    num_questions: int
    answer_kept: float
    answer_kept_held_out: float
    possible: float
    tokens_dropped: float
    total_tokens: float
    kept_tokens: float

    @property
    def is_reached(self) -> bool:
        """Whether the target holds."""
        return self.answer_kept >= TARGET_KEPT and self.tokens_dropped >= TARGET_DROPPED


def questions(places: dict[str, int]) -> list[Question]:
    """Read the questions; `places` says where each paragraph stands in the collection."""
    found = []
    for row in read_jsonl("xquad_en.sentences.jsonl"):
        first, last = row["relevant"][0], row["relevant"][-1]
        start = sum(len(sentence) for sentence in row["sentences"][:first])
        text = row["context"][start : start + sum(map(len, row["sentences"][first : last + 1]))]
        start += len(text) - len(text.lstrip())
        found.append(
            Question(row["question"], places[row["context"]], start, start + len(text.strip()))
        )
    return found


def around(kind: str, place: int, num_paragraphs: int, chance: random.Random) -> list[int]:
    """Return the places of the paragraphs that make the text of a question."""
    if kind == "paragraph":
        return [place]
    if kind == "article":
        first = place - place % PARAGRAPHS_OF_AN_ARTICLE
        return list(range(first, first + PARAGRAPHS_OF_AN_ARTICLE))
    others = chance.sample([n for n in range(num_paragraphs) if n != place], NUM_OTHERS)
    return chance.sample([place, *others], NUM_OTHERS + 1)


async def measure(user: Agent, kind: str, share: float, paragraphs: Sequence[str]) -> Figures:
    """Ask every question over its text."""
    asked = questions({text: place for place, text in enumerate(paragraphs)})
    chance = random.Random(SEED)
    kept, held_out, possible, totals, lefts = [], [], [], [], []
    for question in track(asked, f"{kind}, {share:.0%}", transient=True):
        places = around(kind, question.paragraph, len(paragraphs), chance)
        texts = [paragraphs[place] for place in places]
        budget = max(LEAST_BUDGET, int(share * sum(len(text.encode()) for text in texts) / 4))
        found = await user.call(
            "filter_context", query=question.text, texts=texts, max_tokens=budget
        )
        is_kept = _holds(found, places.index(question.paragraph), question)
        kept.append(is_kept)
        if question.is_held_out:
            held_out.append(is_kept)
        possible.append((question.end - question.start) / 4 <= budget)
        totals.append(sum(map(count_tokens, texts)))
        lefts.append(sum(count_tokens(entry["text"]) for entry in found["results"]))
    return Figures(
        kind=kind,
        budget_share=share,
        num_questions=len(asked),
        answer_kept=round(statistics.fmean(kept), 4),
        answer_kept_held_out=round(statistics.fmean(held_out), 4),
        possible=round(statistics.fmean(possible), 4),
        tokens_dropped=round(1 - sum(lefts) / sum(totals), 4),
        total_tokens=round(statistics.fmean(totals), 1),
        kept_tokens=round(statistics.fmean(lefts), 1),
    )


def _holds(found: dict[str, Any], index: int, question: Question) -> bool:
    """Return whether a piece of the text holds the answer sentence."""
    return any(
        start <= question.start and question.end <= end
        for entry in found["results"]
        if entry["index"] == index
        for _, start, end in entry["spans"]
    )


def as_markdown(figures: Sequence[Figures]) -> str:
    """Return the table that stands beside the numbers."""
    head = (
        "| text | budget | answer sentence kept | held-out half | possible | tokens dropped | "
        "tokens, of | reached |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    rows = [
        f"| {one.kind} | {one.budget_share:.0%} | {one.answer_kept:.1%} | "
        f"{one.answer_kept_held_out:.1%} | {one.possible:.1%} | {one.tokens_dropped:.1%} | "
        f"{one.kept_tokens:,.0f} of {one.total_tokens:,.0f} | {'yes' if one.is_reached else 'no'} |"
        for one in figures
    ]
    return "\n".join(["# filter_context on XQuAD", "", _note(), "", head, *rows, ""])


def _note() -> str:
    return (
        f"`python -m evals.filter_context`; tokens of {TOKENIZER}. Target: the answer sentence "
        f"kept ≥ {TARGET_KEPT:.0%} while ≥ {TARGET_DROPPED:.0%} of the tokens are dropped. "
        "`possible`: the answer sentence alone fits the budget."
    )


async def run() -> tuple[list[Figures], str]:
    """Measure every kind of text with every budget; return the model's name too."""
    paragraphs = [row["text"] for row in read_jsonl("xquad_en/corpus.jsonl")]
    async with agent() as user:
        figures = []
        for kind in KINDS:
            for share in SHARES:
                figures.append(await measure(user, kind, share, paragraphs))
                Console().print(figures[-1])
        pair = {"query": "a", "documents": ["a"]}
        return figures, str((await user.call("rerank", **pair))["model"])


def main() -> None:
    """Measure, print, record."""
    figures, model = asyncio.run(run())
    record = {
        "command": "python -m evals.filter_context",
        "model": model,
        "tokenizer": TOKENIZER,
        "seed": SEED,
        "figures": [asdict(one) | {"is_reached": one.is_reached} for one in figures],
    }
    RESULTS.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    RESULTS.with_suffix(".md").write_text(as_markdown(figures))
    Console().print(as_markdown(figures))


if __name__ == "__main__":
    main()
