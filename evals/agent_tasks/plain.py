"""Plain file reading as an agent does it without our tools: grep, parts of files, whole files.

The reader is a perfect one: it knows a find when it sees it, stops at once, and pays nothing for
the definitions of its tools. So its cost is the least that plain reading can have.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from evals.agent_tasks.agent import count_tokens

# What clients cut a result at, and what an agent opens around a match.
MAX_READ_TOKENS = 25_000
LINES_AROUND = 20
MAX_MATCHES = 25
MAX_KEYWORDS = 3
# Words that no one would search for.
_COMMON = frozenset(
    [
        "a",
        "about",
        "after",
        "all",
        "also",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "before",
        "between",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "during",
        "each",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "many",
        "me",
        "more",
        "most",
        "much",
        "my",
        "name",
        "of",
        "on",
        "one",
        "or",
        "other",
        "our",
        "over",
        "please",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "type",
        "under",
        "up",
        "used",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)


def keywords(question: str) -> list[str]:
    """Return the words of a question that are worth a search, in their order."""
    words = re.findall(r"[^\W_][\w'-]*", question.casefold())
    return list(dict.fromkeys(word for word in words if len(word) > 2 and word not in _COMMON))


@dataclass
class Reader:
    """Reads files, given as lines; `tokens` is what that costs."""

    files: dict[str, list[str]]
    tokens: int = 0
    seen: set[tuple[str, int]] = field(default_factory=set)

    def start(self) -> None:
        """Begin to count anew, with nothing read."""
        self.tokens, self.seen = 0, set()

    def pay(self, arguments: object, output: str) -> None:
        """Count a call and its result."""
        self.tokens += count_tokens(json.dumps(arguments)) + count_tokens(output)

    def by_rarity(self, words: Iterable[str]) -> list[str]:
        """Count every word's lines in one call; return those that occur, the rarest first."""
        counts = {word: sum(1 for _ in self._matches(word)) for word in words}
        self.pay({"counts": list(counts)}, "\n".join(f"{w}:{n}" for w, n in counts.items()))
        return sorted((word for word in counts if counts[word]), key=lambda word: counts[word])

    def files_with(self, word: str) -> list[str]:
        """List the files with a word, as `grep -il`."""
        names = list(dict.fromkeys(name for name, _ in self._matches(word)))
        self.pay({"grep": word, "output": "files"}, "\n".join(names))
        return names

    def open_around(self, word: str) -> Iterator[str]:
        """Read `LINES_AROUND` lines on both sides of each match; yield the file."""
        self.pay({"grep": word, "context": LINES_AROUND}, "")
        for number, (name, line) in enumerate(self._matches(word)):
            if number == MAX_MATCHES:
                return
            self.read(name, line - LINES_AROUND, line + LINES_AROUND)
            yield name

    def read(self, name: str, first: int = 0, last: int | None = None) -> None:
        """Read lines, from 0, of a file; what was read before costs nothing again."""
        lines = self.files[name]
        last = len(lines) - 1 if last is None else min(last, len(lines) - 1)
        new = [n for n in range(max(first, 0), last + 1) if (name, n) not in self.seen]
        if new:
            text = "\n".join(f"{n + 1}\t{lines[n]}" for n in new)
            num_calls = 1 + count_tokens(text) // MAX_READ_TOKENS
            self.pay([{"read": name}] * num_calls, text)
            self.seen.update((name, n) for n in new)

    def read_on(self, step: int = 2 * LINES_AROUND) -> Iterator[str]:
        """Read everything from the beginning, in parts; yield the file of each."""
        for name, lines in self.files.items():
            for first in range(0, len(lines), step):
                self.read(name, first, first + step - 1)
                yield name

    def find(self, question: str, is_found: Callable[[], bool]) -> bool:
        """Search by the rarest words, then read all, until it is found."""
        for word in self.by_rarity(keywords(question))[:MAX_KEYWORDS]:
            if any(is_found() for _ in self.open_around(word)):
                return True
        return any(is_found() for _ in self.read_on())

    def has_read(self, name: str, text: str, first: int = 0, last: int | None = None) -> bool:
        """Return whether the lines read of a file, or of a part of it, hold a text."""
        lines = self.files[name]
        last = len(lines) - 1 if last is None else last
        read = [lines[n] for n in range(first, last + 1) if (name, n) in self.seen]
        return " ".join(text.split()) in " ".join(" ".join(read).split())

    def _matches(self, word: str) -> Iterator[tuple[str, int]]:
        wanted = word.casefold()
        for name, lines in self.files.items():
            for number, line in enumerate(lines):
                if wanted in line.casefold():
                    yield name, number
