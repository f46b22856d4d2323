"""How far every architecture is from its reference library, recorded: `python -m evals.parity`.

Runs the comparisons of tests/parity over its table (tiny random models, float32, CPU) and keeps the
worst difference of every row and task in evals/results/parity.json. docs/models.md is made of it:
run `python -m evals.models_table` afterwards. Exits with 1 where a difference is over the tests'
tolerance.
"""

import argparse
import datetime
import json
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from sie_mcp.adapters.create import read_recipe
from tests.parity import test_static
from tests.parity.checkpoints import save
from tests.parity.row import Row
from tests.parity.run import load
from tests.parity.test_parity import PAIRS, TEXTS, TOLERANCE, reference_rows, rows_of, worst
from tests.running import dense

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row of the table of parity and a task of it, against the reference.

    Attributes:
        task: A task of the catalogue; "dense" also compares the vectors of single tokens. A
            decoder that is asked for relevance has the form beside it, "cross_encoder qwen3".
        max_difference: Largest absolute difference of any number of any text.
    """

    architecture: str
    row: str
    task: str
    max_difference: float
    library: str
    version: str

    @property
    def is_right(self) -> bool:
        """Within the tests' tolerance."""
        return self.max_difference <= TOLERANCE


def measure() -> Iterator[Comparison]:
    """Compare every row and task, one after the other."""
    yield _static()
    for row, task in PAIRS:
        yield _row(row, task)


def _row(row: Row, task: str) -> Comparison:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = save(row, task, folder)
        expected = reference_rows(row, task, reference, folder, TEXTS)
        difference = worst(rows_of(load(folder), task, TEXTS), expected)
        architecture = read_recipe(row.name, folder, None).architecture
    library = type(reference).__module__.partition(".")[0]
    return Comparison(architecture, row.name, task, difference, library, version(library))


def _static() -> Comparison:
    with tempfile.TemporaryDirectory() as name:
        model = test_static.distilled()
        model.save_pretrained(name)
        expected = model.encode(test_static.TEXTS)
        found = dense(test_static.load(Path(name)), test_static.TEXTS)
    difference = worst(list(found), list(expected))
    return Comparison("static", "static", "dense", difference, "model2vec", version("model2vec"))


def main() -> int:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to keep the figures")
    given = parser.parse_args()
    transformers_logging.disable_progress_bar()
    comparisons = []
    for one in measure():
        print(f"{one.row} {one.task}: {one.max_difference:.1e}")
        comparisons.append(one)
    record = {
        "command": "python -m evals.parity",
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "torch": torch.__version__,
        "device": f"{platform.machine()} CPU",
        "tolerance": TOLERANCE,
        "comparisons": [asdict(one) for one in comparisons],
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "parity.json").write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(one.is_right for one in comparisons) else 1


if __name__ == "__main__":
    sys.exit(main())
