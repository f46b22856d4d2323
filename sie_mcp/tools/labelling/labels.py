"""The caller's labels and their descriptions: checked for clashes, and for being told apart."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.result import Result, RoundedScore
from sie_mcp.tools.similarity import top_pairs
from sie_mcp.tools.vectors import Vectors

MAX_LABELS = 1_000
MAX_OVERLAPS = 10
# On banking77 and CLINC150 every fourth text of two labels nearer than this is given the other one,
# with all-MiniLM-L6-v2 and potion-base-8M alike; of pairs under 0.6 it is one in 150.
OVERLAP_COSINE = 0.8
_NO_LETTER = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Label:
    """A label, and what it means where the name alone does not say it."""

    name: str
    description: str = ""

    @property
    def text(self) -> str:
        """What a model reads."""
        return f"{self.name}: {self.description}" if self.description else self.name


class Overlap(Result):
    """Two labels that the model hardly tells apart, and the cosine of their descriptions."""

    a: str
    b: str
    score: RoundedScore


def _as_pairs(value: Any) -> Any:
    if isinstance(value, str):
        return {one.strip(): "" for one in value.split(",")}
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        # Twice the same name is no clash of two labels; the rest is checked by `check_labels`.
        return dict.fromkeys(value, "")
    return value


_Name = Annotated[str, Field(max_length=200)]
Labels = Annotated[
    dict[_Name, Annotated[str, Field(max_length=1_000)]],
    BeforeValidator(_as_pairs, json_schema_input_type=list[str] | dict[str, str]),
    Field(
        description="Labels, or {label: description}; default: the model's own.",
    ),
]


def check_labels(labels: dict[str, str]) -> list[Label]:
    """Return the labels in order.

    Raises:
        InvalidInput: a blank one, too many, or two that are one but for case, spaces
            and punctuation.
    """
    if len(labels) > MAX_LABELS:
        raise InvalidInput(
            f"labels has {len(labels):,} entries; the limit is {MAX_LABELS:,}; a tree of "
            "categories can be larger (classify_taxonomy)"
        )
    seen: dict[str, str] = {}
    for number, name in enumerate(labels):
        if not name.strip():
            raise InvalidInput(f"labels[{number}] is empty; send at least one non-space character")
        key = _NO_LETTER.sub(" ", name.casefold()).strip() or name
        if key in seen:
            raise InvalidInput(
                f"labels {seen[key]!r} and {name!r} are the same but for case, spaces or "
                "punctuation; keep one of them, or give them different names"
            )
        seen[key] = name
    return [Label(name, description.strip()) for name, description in labels.items()]


def overlapping(labels: Sequence[Label], vectors: Vectors) -> list[Overlap]:
    """Return pairs of labels that are hard to tell apart, the nearest first."""
    return [
        Overlap(a=labels[vectors.kept[a]].name, b=labels[vectors.kept[b]].name, score=score)
        for a, b, score in top_pairs(vectors.values, MAX_OVERLAPS)
        if score >= OVERLAP_COSINE
    ]
