"""Tasks over many rows: classify, find doubles, match lists, find by topic.

What is wanted is a file, so that plain reading also writes it; a perfect reader stops as soon as
it is as good as the tools.
"""

import json
import random
from pathlib import Path

from evals.agent_tasks.agent import Agent
from evals.agent_tasks.outcome import Outcome
from evals.agent_tasks.plain import Reader, keywords
from evals.agent_tasks.tables import all_tokens, table, write_table
from evals.datasets import read_jsonl, read_sts
from sie_mcp.catalogue.taxonomy import built_in

SEED = 11
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
    found = {row["id"]: row["category_id"] for row in table(folder / "labels.csv")}
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
    lines = write_table(folder / "rows.csv", rows)
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
        ceiling_tokens=all_tokens(reader.files),
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
    left = write_table(folder / "left.csv", [a for a, _ in pairs])
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
    found = {int(row["index"]): row["path"] for row in table(folder / "matches.csv")}
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
        ceiling_tokens=all_tokens(reader.files),
    )


async def topics(user: Agent, folder: Path) -> Outcome:
    """Find the rows of a table of requests that are about a topic."""
    rows = read_jsonl("requests.jsonl")
    lines = write_table(folder / "requests.csv", [row["text"] for row in rows])
    names = sorted({row["intent"] for row in rows})
    reader = Reader({"requests.csv": lines})
    user.start()
    shares, everything = [], all_tokens(reader.files)
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
        best = table(folder / f"{name}.csv")[:ROWS_OF_A_TOPIC]
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
