"""What a scenario found: rows, and claims that hold or not; kept as JSON and as a Markdown table.

Knows nothing of what was measured.
"""

import datetime
import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evals.stress.calls import OK, Outcome

RESULTS = Path(__file__).parents[1] / "results"
_LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "uvicorn", "httpx2")


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that must hold, what was found, and whether it does.

    `is_speed` claims depend on the machine and on what else it does.
    """

    claim: str
    found: Any
    holds: bool
    is_speed: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """One scenario's findings."""

    settings: dict[str, Any]
    rows: list[dict[str, Any]]
    claims: list[Claim]
    samples: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Claimed:
    """Builds claims in one line each."""

    claims: list[Claim] = field(default_factory=list)

    def at_most(self, claim: str, found: float, limit: float, *, is_speed: bool = False) -> None:
        """Claim a number up to a limit."""
        claim = f"{claim} ≤ {limit:g}"
        self.claims.append(Claim(claim, _short(found), found <= limit, is_speed))

    def at_least(self, claim: str, found: float, limit: float, *, is_speed: bool = False) -> None:
        """Claim a number from a limit on."""
        claim = f"{claim} ≥ {limit:g}"
        self.claims.append(Claim(claim, _short(found), found >= limit, is_speed))

    def none(self, claim: str, found: Sequence[Any]) -> None:
        """Claim that there is none of something; the first of them are shown."""
        shown: Any = [str(one) for one in found[:5]]
        self.claims.append(Claim(f"no {claim}", shown or "none", not found))


def quantiles(values: Iterable[float], *, scale: float = 1000.0) -> dict[str, float | None]:
    """Return median, 99th percentile and greatest, in milliseconds where values are seconds."""
    found = np.fromiter(values, dtype=float) * scale
    if not found.size:
        return {"p50_ms": None, "p99_ms": None, "max_ms": None}
    return {
        "p50_ms": _short(float(np.percentile(found, 50))),
        "p99_ms": _short(float(np.percentile(found, 99))),
        "max_ms": _short(float(found.max())),
    }


def by_model(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return one row a model: requests, failures and times."""
    rows = []
    for model in sorted({one.model for one in outcomes}):
        own = [one for one in outcomes if one.model == model]
        answered = [one.seconds for one in own if one.code == OK]
        failed = len(own) - len(answered)
        rows.append({"model": model, "requests": len(own), "failed": failed} | quantiles(answered))
    return rows


def keep(report: Report, name: str, command: str, device: str, seconds: float, out: Path) -> None:
    """Write `stress-<name>.json` and `.md`."""
    out.mkdir(parents=True, exist_ok=True)
    record = {
        "command": command,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "device": device,
        "cpus": os.cpu_count(),
        "seconds": round(seconds, 1),
        "python": platform.python_version(),
        "versions": {one: _version(one) for one in _LIBRARIES},
        **asdict(report),
    }
    (out / f"stress-{name}.json").write_text(json.dumps(record, indent=1, default=str) + "\n")
    (out / f"stress-{name}.md").write_text(markdown(report, name, record))


def markdown(report: Report, name: str, record: dict[str, Any]) -> str:
    """Return the page that people read."""
    lines = [
        f"# Stress: {name}",
        "",
        f"`{record['command']}`, {record['date']}, {record['device']}, {record['cpus']} CPUs, "
        f"torch {record['versions']['torch']}, {record['seconds']} s.",
        "",
        *table([{"claim": one.claim, "found": one.found, "holds": one.holds}
                for one in report.claims]),
        "",
        *table(report.rows),
    ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table; a column for every key that any row has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        return []
    head = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return head + [f"| {' | '.join(_cell(row.get(name)) for name in names)} |" for row in rows]


def device_name(*, gpu: bool) -> str:
    """Return what ran the models."""
    return torch.cuda.get_device_name() if gpu else f"{platform.machine()} CPU"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "**NO**"
    return "" if value is None else str(value).replace("|", "\\|")


def _short(value: float) -> float:
    """Keep four digits that say something."""
    return float(f"{value:.4g}")


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"
