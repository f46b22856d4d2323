"""`python -m evals.bench.cpu_peers`: embedding on the CPU beside every peer that is installed.

Engines run in processes of their own, in turn, so that a busy machine is busy for all of them;
medians of rounds. Peers of other interpreters: `--peer-python` for runtimes, `--infinity-python`.
Figures go to evals/results/bench-cpu-peers.{json,md}.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from evals.bench.cpu_engines import ENGINES
from evals.datasets import DATA
from sie_mcp.catalogue.fetch import find_local
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.config import load_config
from sie_mcp.errors import ModelNotFound

MODEL = "all-MiniLM-L6-v2"
REFERENCE = "sentence-transformers float32"
RUNTIMES = ("ONNX", "OpenVINO", "FastEmbed")
MAX_TOKENS = 256
# Longer than a worker waits before it gives back what it no longer uses.
REST_S = 3.5
RESTED = "rested"
WORKLOADS = ("queries", "uniform 256", "heavy-tailed")
RESULTS = Path(__file__).parents[1] / "results"
ROOT = Path(__file__).parents[2]
Measured = dict[str, dict[str, list[dict[str, float]]]]


def main() -> int:
    """Measure and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--peer-python", default=sys.executable, help="where runtimes are installed"
    )
    parser.add_argument("--infinity-python", default=sys.executable, help="where Infinity is")
    parser.add_argument("--models", type=Path, help="a folder with model.onnx, model-int8.xml")
    parser.add_argument("--engines", default="", help="only those whose name begins so, by commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the texts, for a quick look")
    given = parser.parse_args()
    source = model_folder()
    with tempfile.TemporaryDirectory() as scratch:
        folder = _joined(source, given.models, Path(scratch))
        engines = {
            name: started
            for name in ENGINES
            if name.startswith(tuple(given.engines.split(",")))
            and (started := Engine.start(name, folder, given)) is not None
        }
        try:
            texts = workloads(folder, given.share)
            rows = _rows(engines, _measure(engines, texts, given.rounds, folder))
        finally:
            for engine in engines.values():
                engine.stop()
    record = {
        "command": "python -m evals.bench.cpu_peers",
        "model": MODEL,
        "threads": given.threads,
        "rounds": given.rounds,
        "share": given.share,
        "processor": _processor(),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
        "rows": rows,
    }
    (RESULTS / "bench-cpu-peers.json").write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / "bench-cpu-peers.md").write_text(_table(record))
    print(_table(record))
    return 0


def workloads(folder: Path, share: float = 1.0) -> dict[str, list[str]]:
    """Make texts of real words: short queries, passages of 256 tokens, lengths with a long tail."""
    rng = random.Random(0)
    words = (DATA / "state_of_the_union.txt").read_text("utf-8").split()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    sizes = {
        word: len(tokenizer.encode(word, add_special_tokens=False).ids) for word in sorted({*words})
    }

    def texts(count: int, length: Callable[[], int]) -> list[str]:
        return [text(length()) for _ in range(max(2, int(count * share)))]

    def text(num_tokens: int) -> str:
        chosen: list[str] = []
        left = num_tokens - 2  # What stands around each.
        while left > 0:
            word = rng.choice(words)
            if sizes[word] <= left:
                chosen.append(word)
                left -= sizes[word]
        return " ".join(chosen)

    def tail() -> int:
        return min(max(int(rng.lognormvariate(4.1, 0.9)), 6), MAX_TOKENS)

    return {
        "queries": texts(600, lambda: rng.randint(7, 17)),
        "uniform 256": texts(40, lambda: MAX_TOKENS),
        "heavy-tailed": texts(300, tail),
    }


class Engine:
    """A process that answers."""

    def __init__(self, process: subprocess.Popen[str], first: dict[str, Any]) -> None:
        self._process = process
        self.first = first

    @classmethod
    def start(cls, name: str, folder: Path, given: argparse.Namespace) -> "Engine | None":
        """Start it; None, with the reason printed, where it cannot."""
        pythons = {"Infinity": given.infinity_python, **dict.fromkeys(RUNTIMES, given.peer_python)}
        python = next(
            (path for start, path in pythons.items() if name.startswith(start)), sys.executable
        )
        script = str(Path(__file__).with_name("cpu_engines.py"))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
        environment["OMP_NUM_THREADS"] = str(given.threads)
        process = subprocess.Popen(
            [python, script, name, str(folder), str(given.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        if line:
            return cls(process, json.loads(line))
        _, errors = process.communicate()
        reason = (errors.strip().splitlines() or ["it ended"])[-1]
        print(f"{name} is left out: {reason:.200}", file=sys.stderr)
        return None

    def encode(self, texts: list[str], out: Path | None) -> dict[str, float]:
        """Have it encode; its vectors go to a file where one is named."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"texts": texts, "out": None if out is None else str(out)})
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer: dict[str, float] = json.loads(self._process.stdout.readline())
        return answer

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def _measure(
    engines: dict[str, Engine], texts: dict[str, list[str]], rounds: int, folder: Path
) -> Measured:
    measured: Measured = {}
    for workload, own in texts.items():
        answers: dict[str, list[dict[str, float]]] = {name: [] for name in engines}
        for number in range(rounds + 1):
            for name, engine in engines.items():
                out = folder / f"{name}.npy" if not number else None
                answer = engine.encode(own, out)
                if number:  # The first is for caches, and for the vectors.
                    answers[name].append(answer)
        reference = np.load(folder / f"{REFERENCE}.npy") if REFERENCE in engines else None
        for name in engines:
            vectors = np.load(folder / f"{name}.npy")
            for one in answers[name]:
                one["min_cosine"] = _min_cosine(vectors, reference)
        measured[workload] = answers
    time.sleep(REST_S)
    for _ in range(2):  # Of the second, who gave back too much has what it needs again.
        measured[RESTED] = {name: [one.encode(["One."], None)] for name, one in engines.items()}
    return measured


def _rows(engines: dict[str, Engine], measured: Measured) -> list[dict[str, Any]]:
    rested = measured.pop(RESTED)
    rows = []
    for name, engine in engines.items():
        row: dict[str, Any] = {"engine": name}
        for workload, answers in measured.items():
            for what in ("cpu_s", "wall_s"):
                own = statistics.median(one[what] for one in answers[name])
                row[f"{workload} {what}"] = round(own, 3)
                if REFERENCE in engines:
                    ratios = [
                        theirs[what] / ours[what]
                        for theirs, ours in zip(answers[REFERENCE], answers[name], strict=True)
                    ]
                    row[f"{workload} {what} ratio"] = round(statistics.median(ratios), 2)
            row[f"{workload} min_cosine"] = round(answers[name][0]["min_cosine"], 5)
        busy = max(answers[name][-1]["resident_bytes"] for answers in measured.values())
        row |= {
            "first embedding wall_s": round(engine.first["ready_s"], 2),
            "first embedding cpu_s": round(engine.first["ready_cpu_s"], 2),
            "imports transformers": engine.first["has_transformers"],
            "busy_mb": round(busy / 1e6),
            "rested_mb": round(rested[name][0]["resident_bytes"] / 1e6),
            "private_mb": round(rested[name][0]["private_bytes"] / 1e6),
            "peak_mb": round(rested[name][0]["peak_bytes"] / 1e6),
        }
        rows.append(row)
    return rows


def _min_cosine(vectors: np.ndarray, reference: np.ndarray | None) -> float:
    if reference is None:
        return float("nan")
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(reference, axis=1)
    return float(((vectors * reference).sum(1) / norms).min())


def model_folder() -> Path:
    """Return where the model lies."""
    entry = load_catalogue().find(MODEL)
    folder = find_local(entry, load_config().cache_dir) if entry else None
    if folder is None:
        raise ModelNotFound(f"{MODEL} is not on disk; run `sie-mcp models pull starter`")
    return folder


def _joined(source: Path, models: Path | None, scratch: Path) -> Path:
    """Put the checkpoint and its converted forms side by side."""
    for folder in (source, models):
        for file in [] if folder is None else folder.iterdir():
            (scratch / file.name).symlink_to(file.resolve())
    return scratch


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    found = {
        line.split(":")[0].strip(): line.split(":")[1].strip() for line in lines if ":" in line
    }
    return ", ".join(
        f"{key} {found.get(key, '?')}" for key in ("model name", "cpu family", "model")
    )


def _table(record: dict[str, Any]) -> str:
    rows = record["rows"]
    names = [name for name in rows[0] if name != "engine"]
    speeds = [name for name in names if name.endswith(("cpu_s ratio", "wall_s ratio", "cosine"))]
    others = [name for name in names if not name.startswith(WORKLOADS)]
    seconds = [name for name in names if name not in speeds + others]
    lines = [
        f"`{record['command']}`, {record['model']}, {record['threads']} thread(s), "
        f"{record['processor']}, medians of {record['rounds']} interleaved rounds, "
        f"{record['share']} of the texts; "
        "ratio: sentence-transformers' time over this engine's; cpu_s: processor time, which a "
        "busy machine disturbs least.",
    ]
    for part in (speeds, seconds, others):
        lines += ["", f"| engine | {' | '.join(part)} |", "|---" * (len(part) + 1) + "|"]
        lines += [
            f"| {row['engine']} | {' | '.join(str(row.get(name, '')) for name in part)} |"
            for row in rows
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
