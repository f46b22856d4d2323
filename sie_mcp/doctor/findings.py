"""A finding: its name, its verdict, what was seen, what to do. Knows no check."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `fix` says what to do; it is empty where all is well."""

    name: str
    verdict: Verdict
    text: str
    fix: str = ""


def size_text(num_bytes: int) -> str:
    """Return a size as people read it."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"
