"""Tasks over many rows or pages: classify, extract, find doubles, match lists, find by topic.

What is wanted is a file, so that plain reading also writes it; a perfect reader stops as soon as
it is as good as the tools.
"""

import csv
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from evals.agent_tasks.agent import Agent
from evals.agent_tasks.outcome import Outcome
from evals.agent_tasks.plain import Reader, keywords
from evals.datasets import read_jsonl, read_sts
from sie_mcp.catalogue.taxonomy import built_in

SEED = 11
NUM_PAGES, SENTENCES_OF_A_PAGE = 100, 10
NUM_ROWS, NUM_DOUBLES, NUM_MATCHES = 2_000, 40, 300
NUM_TOPICS, ROWS_OF_A_TOPIC = 10, 30
MAX_GREP_LINES = 50
MAX_GREPS = 2


async def products(user: Agent, folder: Path) -> Outcome:
    """Classify products into Shopify's 10,595 categories."""
    rows = read_jsonl("products.dev.jsonl")
    lines = [
        json.dumps({"id": row["id"], "text": f"{row['title']}. {row['description']}"})
        for row in rows
    ]
    (folder / "products.jsonl").write_text("\n".join(lines))
    tree = built_in("shopify")
    named = dict(zip(tree.ids or (), tree.paths, strict=True))
    golds = [{row["gold_id"], *row["also_ids"]} for row in rows]
    user.start()
    await user.call("classify_taxonomy", path="products.jsonl", output_path="labels.csv", top_k=1)
    found = {row["id"]: row["category_id"] for row in _table(folder / "labels.csv")}
    ours = sum(found[row["id"]] in gold for row, gold in zip(rows, golds, strict=True))
    category_lines = [f"{number}\t{path}" for number, path in named.items()]
    reader = Reader({"products.jsonl": lines, "categories.tsv": category_lines})
    reader.read("products.jsonl")
    theirs = 0
    for row, gold in zip(rows, golds, strict=True):
        if theirs == ours:
            break
        theirs += _finds_category(reader, row["title"], {f"{n}\t{named[n]}" for n in gold})
        reader.pay("", f"{row['id']},{row['gold_id']}")
    return Outcome(
        task=f"classify {len(rows)} products into 10,595 categories",
        tools=sorted(user.used),
        measure="products in a right category",
        plain_tokens=reader.tokens,
        plain_quality=theirs / len(rows),
        tools_tokens=user.cost,
        tools_quality=ours / len(rows),
        ceiling=1.0,
        ceiling_tokens=None,
    )


def _finds_category(reader: Reader, title: str, right: set[str]) -> bool:
    """Grep the categories for the title's words, the rarest first, as far as a client shows."""
    lines = reader.files["categories.tsv"]
    found = {word: [one for one in lines if word in one.casefold()] for word in keywords(title)}
    rarest = sorted((word for word in found if found[word]), key=lambda word: len(found[word]))
    for word in rarest[:MAX_GREPS]:
        shown = found[word][:MAX_GREP_LINES]
        reader.pay({"grep": word, "path": "categories.tsv"}, "\n".join(shown))
        if right & set(shown):
            return True
    return False


async def people(user: Agent, folder: Path) -> Outcome:
    """List the people named on pages of an encyclopaedia."""
    sentences = read_jsonl("wikigold.jsonl")[: NUM_PAGES * SENTENCES_OF_A_PAGE]
    pages = [
        sentences[first : first + SENTENCES_OF_A_PAGE]
        for first in range(0, len(sentences), SENTENCES_OF_A_PAGE)
    ]
    files = {
        f"page{number:03}.txt": [" ".join(sentence["tokens"]) for sentence in page]
        for number, page in enumerate(pages)
    }
    gold = {
        (f"page{number:03}.txt", entity["text"])
        for number, page in enumerate(pages)
        for sentence in page
        for entity in sentence["entities"]
        if entity["type"] == "PER"
    }
    _write_files(folder / "pages", files)
    user.start()
    await user.call(
        "extract_entities",
        path="pages/*.txt",
        labels=["GIVEN_NAME", "SURNAME"],
        output_path="people.csv",
    )
    rows = _table(folder / "people.csv")
    ours = {one for one in gold if _is_named(one, rows)}
    reader = Reader(files)
    _read_pages(reader, gold, len(ours))
    return Outcome(
        task=f"list the people on {NUM_PAGES} pages",
        tools=sorted(user.used),
        measure="recall of people",
        plain_tokens=reader.tokens,
        plain_quality=len(ours) / len(gold),
        tools_tokens=user.cost,
        tools_quality=len(ours) / len(gold),
        ceiling=1.0,
        ceiling_tokens=_all_tokens(files),
    )


def _is_named(one: tuple[str, str], rows: Sequence[dict[str, str]]) -> bool:
    """Return whether every word of a name is among what was found on its page."""
    page, name = one
    words = {word for row in rows if page in row["source"] for word in row["text"].split()}
    return all(word in words for word in name.split() if len(word) > 2)


def _read_pages(reader: Reader, gold: set[tuple[str, str]], wanted: int) -> None:
    """Read page after page and write down what is on it, until so many are found."""
    found = 0
    for name in reader.files:
        if found >= wanted:
            return
        reader.read(name)
        here = sorted(text for page, text in gold if page == name)
        reader.pay("", "\n".join(f"{name},{text}" for text in here))
        found += len(here)


async def doubles(user: Agent, folder: Path) -> Outcome:
    """Find the rows of a table that say the same."""
    scores, first, second = read_sts()
    same = [
        (a, b) for score, a, b in zip(scores, first, second, strict=True) if score == 5 and a != b
    ]
    chance = random.Random(SEED)
    pairs = chance.sample(same, NUM_DOUBLES)
    rows = [text for pair in pairs for text in pair]
    others = [" ".join(sentence["tokens"]) for sentence in read_jsonl("wikigold.jsonl")]
    others += [
        sentence.strip()
        for row in read_jsonl("xquad_en.sentences.jsonl")
        for sentence in row["sentences"]
    ]
    rows += list(dict.fromkeys(others))[: NUM_ROWS - len(rows)]
    chance.shuffle(rows)
    lines = _write_table(folder / "rows.csv", rows)
    wanted = {frozenset((rows.index(a), rows.index(b))) for a, b in pairs}
    user.start()
    shown = await user.call("embed", path="rows.csv", columns=["text"], top_k=50)
    ours = len(wanted & {frozenset((pair["a"], pair["b"])) for pair in shown["pairs"]})
    reader = Reader({"rows.csv": lines})
    # The second of a pair is where it is seen.
    last = sorted(max(pair) for pair in wanted)[ours - 1] if ours else 0
    reader.read("rows.csv", 0, last + 1)
    reader.pay("", "\n".join(f"{a},{b}" for a, b in list(map(sorted, wanted))[:ours]))
    return Outcome(
        task=f"find {NUM_DOUBLES} near-duplicates among {NUM_ROWS:,} rows",
        tools=sorted(user.used),
        measure="recall of pairs",
        plain_tokens=reader.tokens,
        plain_quality=ours / len(wanted),
        tools_tokens=user.cost,
        tools_quality=ours / len(wanted),
        ceiling=1.0,
        ceiling_tokens=_all_tokens(reader.files),
    )


async def two_lists(user: Agent, folder: Path) -> Outcome:
    """Match each of 300 sentences with the one of another list that means the same."""
    scores, first, second = read_sts()
    close = [
        (a, b) for score, a, b in zip(scores, first, second, strict=True) if score >= 4 and a != b
    ]
    once = list({b: (a, b) for a, b in {a: (a, b) for a, b in close}.values()}.values())
    chance = random.Random(SEED)
    pairs = chance.sample(once, min(NUM_MATCHES, len(once)))
    others = sorted(b for _, b in pairs)
    left = _write_table(folder / "left.csv", [a for a, _ in pairs])
    (folder / "right.txt").write_text("\n".join(others))
    user.start()
    await user.call(
        "classify_taxonomy",
        path="left.csv",
        columns=["text"],
        taxonomy="right.txt",
        top_k=1,
        output_path="matches.csv",
    )
    found = {int(row["index"]): row["path"] for row in _table(folder / "matches.csv")}
    ours = sum(found.get(number) == b for number, (_, b) in enumerate(pairs))
    reader = Reader({"left.csv": left, "right.txt": others})
    reader.read("right.txt")
    reader.read("left.csv", 0, ours)
    reader.pay("", "\n".join(f"{n},{others.index(b)}" for n, (_, b) in enumerate(pairs[:ours])))
    return Outcome(
        task=f"match two lists of {len(pairs)} sentences by meaning",
        tools=sorted(user.used),
        measure="right matches",
        plain_tokens=reader.tokens,
        plain_quality=ours / len(pairs),
        tools_tokens=user.cost,
        tools_quality=ours / len(pairs),
        ceiling=1.0,
        ceiling_tokens=_all_tokens(reader.files),
    )


async def topics(user: Agent, folder: Path) -> Outcome:
    """Find the rows of a table of requests that are about a topic."""
    rows = read_jsonl("requests.jsonl")
    lines = _write_table(folder / "requests.csv", [row["text"] for row in rows])
    names = sorted({row["intent"] for row in rows})
    reader = Reader({"requests.csv": lines})
    user.start()
    shares, everything = [], _all_tokens(reader.files)
    for name in names[:: len(names) // NUM_TOPICS][:NUM_TOPICS]:
        right = {number for number, row in enumerate(rows) if row["intent"] == name}
        topic = name.replace("_", " ")
        await user.call(
            "rerank",
            query=topic,
            path="requests.csv",
            columns=["text"],
            top_k=5,
            return_text=True,
            output_path=f"{name}.csv",
        )
        best = _table(folder / f"{name}.csv")[:ROWS_OF_A_TOPIC]
        ours = len(right & {int(row["index"]) for row in best})
        shares.append(ours / len(right))
        _grep_rows(reader, topic, {number + 1 for number in right}, ours)
    return Outcome(
        task=f"find the requests about a topic among {len(rows):,} rows, {NUM_TOPICS} topics",
        tools=sorted(user.used),
        measure="recall of rows",
        plain_tokens=reader.tokens,
        plain_quality=sum(shares) / len(shares),
        tools_tokens=user.cost,
        tools_quality=sum(shares) / len(shares),
        ceiling=1.0,
        ceiling_tokens=everything,
    )


def _grep_rows(reader: Reader, topic: str, right: set[int], wanted: int) -> None:
    """Grep the topic's words, then read from the beginning, until so many rows are seen."""
    (name,) = reader.files
    lines = reader.files[name]
    found: set[int] = set()
    for word in keywords(topic):
        if len(found) >= wanted:
            break
        places = [n for n, line in enumerate(lines) if word in line.casefold()]
        reader.pay({"grep": word}, "\n".join(f"{n + 1}:{lines[n]}" for n in places))
        found |= right & set(places)
    for place in sorted(right - found):
        if len(found) >= wanted:
            break
        reader.read(name, 0, place)
        found.add(place)
    reader.pay("", "\n".join(map(str, sorted(found)[:wanted])))


async def contact_data(user: Agent, folder: Path) -> Outcome:
    """Find which of 240 files hold somebody's contact data, in no one form."""
    texts = [row["text"] for row in read_jsonl("xquad_en/corpus.jsonl")]
    chance = random.Random(SEED)
    places = chance.sample(range(len(texts)), len(_CONTACTS))
    for place, contact in zip(places, _CONTACTS, strict=True):
        half = texts[place].find(". ") + 1
        texts[place] = f"{texts[place][:half]} {contact}{texts[place][half:]}"
    files = {f"d{number:03}.md": [text] for number, text in enumerate(texts)}
    _write_files(folder / "docs", files)
    right = {f"d{place:03}.md" for place in places}
    labels = ["EMAIL", "PHONE", "STREET_NAME", "BUILDING_NUMBER", "TAX_ID", "PASSPORT"]
    user.start()
    await user.call("extract_entities", path="docs/*.md", labels=labels, output_path="contacts.csv")
    rows = _table(folder / "contacts.csv")
    named = {name for name in files if any(name in row["source"] for row in rows)}
    # The agent opens each file that is named: only so does it know which are right.
    checked = Reader(files)
    for name in sorted(named):
        found = [row for row in rows if name in row["source"]]
        checked.pay("", "\n".join(f"{name}: {row['label']} {row['text']}" for row in found))
    reader = Reader(files)
    seen: set[str] = set()
    for pattern in ("@", "phone"):
        matches = [name for name, lines in files.items() if pattern in lines[0]]
        reader.pay(
            {"grep": pattern}, "\n".join(f"{n}: {_near(files[n][0], pattern)}" for n in matches)
        )
        seen |= right & set(matches)
    for name in reader.files:
        if len(seen) >= len(right & named):
            break
        reader.read(name)
        seen |= right & {name}
    return Outcome(
        task="find which of 240 files hold somebody's contact data",
        tools=sorted(user.used),
        measure="recall of files",
        plain_tokens=reader.tokens,
        plain_quality=len(right & named) / len(right),
        tools_tokens=user.cost + checked.tokens,
        tools_quality=len(right & named) / len(right),
        ceiling=1.0,
        ceiling_tokens=_all_tokens(files),
    )


def _near(text: str, pattern: str, around: int = 80) -> str:
    place = text.index(pattern)
    return text[max(place - around, 0) : place + around]


# Nobody's: example domains, numbers reserved for fiction, streets that are none.
_CONTACTS = (
    "Write to Martha Oakes at martha.oakes@example.org.",
    "Ask for J. Perkins, jperkins@example.com.",
    "The author is reached under lena_brandt@example.net.",
    "Corrections go to Tom Hale, tom@example.org.",
    "Call Ruth Dyer on 555-0142 before noon.",
    "His number is (212) 555-0187.",
    "Phone Omar Said, +1 415 555 0123.",
    "She can be rung at 020 7946 0018.",
    "Parcels for Ann Lowe go to 48 Willowmere Lane, Springfield.",
    "He lives at 1190 Harrow Bend Road, Apartment 4.",
    "Visit Peter Nagy at 7 Quince Street.",
    "Send it to Carla Ruiz, 2205 Ferncliff Avenue, Dayton, OH 45402.",
)


def _table(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _write_table(path: Path, texts: Iterable[str]) -> list[str]:
    """Write a table of one column; return its lines."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        writer.writerows([" ".join(text.split())] for text in texts)
    return path.read_text().splitlines()


def _write_files(folder: Path, files: dict[str, list[str]]) -> None:
    folder.mkdir()
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines))


def _all_tokens(files: dict[str, list[str]]) -> int:
    reader = Reader(files)
    for name in files:
        reader.read(name)
    return reader.tokens
