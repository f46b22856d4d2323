"""Tasks of questions: an answer in a long file, in a folder; the right abstracts; search hits."""

import json
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.agent_tasks.agent import Agent
from evals.agent_tasks.outcome import Outcome
from evals.agent_tasks.plain import Reader, keywords
from evals.agent_tasks.tables import all_tokens
from evals.datasets import Retrieval, read_jsonl, read_retrieval

NUM_QUESTIONS = 20
NUM_OF_LONG_FILE = 10  # each reads 1,200 sentences
NUM_HITS, NUM_TRIAGES = 200, 5
WIDTH = 80


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, its answer, and the place of the paragraph that holds it."""

    question: str
    answer: str
    paragraph: int


def _asked(paragraphs: Sequence[str], count: int) -> list[Asked]:
    """Take questions at even steps over the collection."""
    rows = read_jsonl("xquad_en.sentences.jsonl")
    places = {text: place for place, text in enumerate(paragraphs)}
    step = len(rows) // count
    return [
        Asked(row["question"], row["answer"], places[row["context"]])
        for row in rows[::step][:count]
    ]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _paragraphs() -> list[str]:
    return [row["text"] for row in read_jsonl("xquad_en/corpus.jsonl")]


def _is_read(
    reader: Reader, name: str, answer: str, lines: tuple[int, int] | None = None
) -> Callable[[], bool]:
    return lambda: reader.has_read(name, answer, *(lines or ()))


def _holds(text: str, answer: str) -> bool:
    return " ".join(answer.split()) in " ".join(text.split())


async def long_file(user: Agent, folder: Path) -> Outcome:
    """Answer questions from one long file."""
    paragraphs = _paragraphs()
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    for paragraph in paragraphs:
        new = _wrapped(paragraph)
        places.append((len(lines), len(lines) + len(new) - 1))
        lines += [*new, ""]
    name = "handbook.md"
    (folder / name).write_text("\n".join(lines))
    reader = Reader({name: lines})
    asked = _asked(paragraphs, NUM_OF_LONG_FILE)
    found = [
        reader.find(one.question, _is_read(reader, name, one.answer, places[one.paragraph]))
        for one in asked
    ]
    text = "\n".join(lines)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    spans = [(starts[first], starts[last + 1]) for first, last in places]
    first_found, ours = 0, 0
    again = Reader(reader.files)
    user.start()
    for one in asked:
        for attempt, budget in enumerate((200, 1_000, 3_000)):
            shown = await user.call(
                "filter_context", query=one.question, path=name, max_tokens=budget
            )
            start, end = spans[one.paragraph]
            pieces = (
                text[max(start, s) : min(end, e)]
                for entry in shown["results"]
                for _, s, e in entry["spans"]
                if s < end and start < e
            )
            if any(_holds(piece, one.answer) for piece in pieces):
                ours += 1
                first_found += attempt == 0
                break
        else:
            ours += again.find(
                one.question, _is_read(again, name, one.answer, places[one.paragraph])
            )
    return Outcome(
        task=f"answer {NUM_OF_LONG_FILE} questions from one file of 240 paragraphs",
        tools=sorted(user.used),
        measure="answers found",
        plain_tokens=reader.tokens,
        plain_quality=sum(found) / len(asked),
        tools_tokens=user.cost + again.tokens,
        tools_quality=ours / len(asked),
        first_quality=first_found / len(asked),
    )


async def folder_of_notes(user: Agent, folder: Path) -> Outcome:
    """Answer questions from a folder of small files."""
    paragraphs = _paragraphs()
    (folder / "notes").mkdir()
    files = {f"notes/p{place}.md": _wrapped(text) for place, text in enumerate(paragraphs)}
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines))
    reader = Reader(files)
    asked = _asked(paragraphs, NUM_QUESTIONS)
    names = [f"notes/p{one.paragraph}.md" for one in asked]
    found = [
        reader.find(one.question, _is_read(reader, name, one.answer))
        for one, name in zip(asked, names, strict=True)
    ]
    first_found, ours = 0, 0
    again = Reader(reader.files)
    user.start()
    for one, name in zip(asked, names, strict=True):
        shown = await user.call("search_files", query=one.question, paths=["notes"])
        if any(
            passage["path"] == name and _holds(passage.get("text", ""), one.answer)
            for passage in shown["results"]
        ):
            first_found += 1
            ours += 1
        else:
            again.seen.clear()
            ours += _opens(again, shown["results"], _is_read(again, name, one.answer)) or (
                again.find(one.question, _is_read(again, name, one.answer))
            )
    return Outcome(
        task=f"answer {NUM_QUESTIONS} questions from a folder of 240 files",
        tools=sorted(user.used),
        measure="answers found",
        plain_tokens=reader.tokens,
        plain_quality=sum(found) / len(asked),
        tools_tokens=user.cost + again.tokens,
        tools_quality=ours / len(asked),
        first_quality=first_found / len(asked),
    )


def _opens(
    reader: Reader, passages: Sequence[dict[str, Any]], is_found: Callable[[], bool]
) -> bool:
    """Read on at the lines that a search names, the best first."""
    for passage in passages:
        first, _, last = passage["lines"].partition("-")
        reader.read(passage["path"], int(first) - 1, int(last or first) - 1)
        if is_found():
            return True
    return False


async def abstracts(user: Agent, folder: Path) -> Outcome:
    """Find the relevant ones in a folder of 1,400 abstracts, ten a question."""
    data = read_retrieval("cranfield")
    (folder / "abstracts").mkdir()
    files = {
        f"abstracts/{number}.md": _wrapped(text)
        for number, text in zip(data.document_ids, data.documents, strict=True)
        if text.strip()
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines))
    reader = Reader(files)
    user.start()
    shares, plain_shares = [], []
    for query_id, query in _judged(data, NUM_QUESTIONS):
        right = {f"abstracts/{number}.md" for number in data.relevant[query_id]}
        shown = await user.call(
            "search_files", query=query, paths=["abstracts"], top_k=10, max_tokens=2_500
        )
        named = {passage["path"] for passage in shown["results"] if "text" in passage}
        ours = sum(any(path.endswith(name) for path in named) for name in right)
        shares.append(ours / len(right))
        plain_shares.append(_read_until(reader, query, right, ours) / len(right))
    return Outcome(
        task=f"find relevant abstracts among 1,400 files, {NUM_QUESTIONS} questions",
        tools=sorted(user.used),
        measure="recall of what is relevant",
        plain_tokens=reader.tokens,
        plain_quality=sum(plain_shares) / len(shares),
        tools_tokens=user.cost,
        tools_quality=sum(shares) / len(shares),
        ceiling=1.0,
        ceiling_tokens=all_tokens(files),
    )


def _read_until(reader: Reader, query: str, right: set[str], wanted: int) -> int:
    """Read the files with the rarest words first, until as many right ones are read."""
    found: set[str] = set()

    def is_enough() -> bool:
        return len(found & right) >= wanted

    if is_enough():
        return 0
    for word in reader.by_rarity(keywords(query)):
        for name in reader.files_with(word):
            reader.read(name)
            found.add(name)
            if is_enough():
                return wanted
    for name in reader.read_on():
        found.add(name)
        if is_enough():
            return wanted
    return len(found & right)


async def triage(user: Agent, folder: Path) -> Outcome:
    """Pick the relevant ones of 200 search hits, in the order of their files."""
    data = read_retrieval("cranfield")
    texts = dict(zip(data.document_ids, data.documents, strict=True))
    user.start()
    shares, tokens, everything = [], 0, 0
    for query_id, query in _judged(data, NUM_TRIAGES):
        hits = _hits(texts, query)
        right = data.relevant[query_id] & set(hits)
        name = f"hits{query_id}.jsonl"
        rows = [json.dumps({"id": number, "text": texts[number]}) for number in hits]
        (folder / name).write_text("\n".join(rows))
        shown = await user.call("rerank", query=query, path=name, top_k=10, return_text=True)
        ours = len(right & {entry["id"] for entry in shown["results"] if "text" in entry})
        reader = Reader({name: rows})
        everything += all_tokens(reader.files)
        places = [place for place, number in enumerate(hits) if number in right]
        if ours:
            reader.read(name, 0, places[ours - 1])
        tokens += reader.tokens
        shares.append(ours / len(right))
    return Outcome(
        task=f"triage 200 search hits, {NUM_TRIAGES} times",
        tools=sorted(user.used),
        measure="recall of what is relevant",
        plain_tokens=tokens,
        plain_quality=sum(shares) / len(shares),
        tools_tokens=user.cost,
        tools_quality=sum(shares) / len(shares),
        ceiling=1.0,
        ceiling_tokens=everything,
    )


def _hits(texts: dict[str, str], query: str) -> list[str]:
    """Return the 200 texts that share most of a query's words, in the order of the collection."""
    words = keywords(query)
    shared = {number: sum(word in text for word in words) for number, text in texts.items()}
    best = sorted(texts, key=lambda number: -shared[number])[:NUM_HITS]
    return [number for number in texts if number in set(best)]


def _judged(data: Retrieval, count: int) -> list[tuple[str, str]]:
    rows = [
        (number, text)
        for number, text in zip(data.query_ids, data.queries, strict=True)
        if number in data.relevant
    ]
    return rows[:: len(rows) // count][:count]
