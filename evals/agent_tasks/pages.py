"""Tasks over pages: who is named, and which hold somebody's contact data.

What is wanted is a file, so that plain reading also writes it; a perfect reader stops as soon as
it is as good as the tools.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from evals.agent_tasks.agent import Agent
from evals.agent_tasks.outcome import Outcome
from evals.agent_tasks.plain import Reader
from evals.agent_tasks.tables import all_tokens, table, write_files
from evals.datasets import read_jsonl

SEED = 11
NUM_PAGES, SENTENCES_OF_A_PAGE = 100, 10


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
    write_files(folder / "pages", files)
    user.start()
    await user.call(
        "extract_entities",
        path="pages/*.txt",
        labels=["GIVEN_NAME", "SURNAME"],
        output_path="people.csv",
    )
    rows = table(folder / "people.csv")
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
        ceiling_tokens=all_tokens(files),
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


async def contact_data(user: Agent, folder: Path) -> Outcome:
    """Find which of 240 files hold somebody's contact data, in no one form."""
    texts = [row["text"] for row in read_jsonl("xquad_en/corpus.jsonl")]
    chance = random.Random(SEED)
    places = chance.sample(range(len(texts)), len(_CONTACTS))
    for place, contact in zip(places, _CONTACTS, strict=True):
        half = texts[place].find(". ") + 1
        texts[place] = f"{texts[place][:half]} {contact}{texts[place][half:]}"
    files = {f"d{number:03}.md": [text] for number, text in enumerate(texts)}
    write_files(folder / "docs", files)
    right = {f"d{place:03}.md" for place in places}
    labels = ["EMAIL", "PHONE", "STREET_NAME", "BUILDING_NUMBER", "TAX_ID", "PASSPORT"]
    user.start()
    await user.call("extract_entities", path="docs/*.md", labels=labels, output_path="contacts.csv")
    rows = table(folder / "contacts.csv")
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
        ceiling_tokens=all_tokens(files),
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
