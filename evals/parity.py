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
from sie_mcp.adapters.score_forms import FORMS
from tests.adapters import test_m3
from tests.parity import (
    gliclass_models,
    gliner2_models,
    gliners,
    pruners,
    rerankers,
    test_causal_rerankers,
    test_gliner,
    test_static,
)
from tests.parity.checkpoints import save
from tests.parity.row import Row
from tests.parity.run import load
from tests.parity.test_parity import PAIRS, TEXTS, TOLERANCE, reference_rows, rows_of, worst
from tests.running import dense

_TRANSFORMERS = version("transformers")
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row of the table of parity and a task of it, against the reference.

    Attributes:
        task: A task of the catalogue; "dense" also compares the vectors of single tokens. A
            decoder that is asked for relevance has the form beside it, "cross_encoder qwen3".
            "pruning" also compares the relevance that comes with it. "gliner" compares the
            probabilities of the same entities; the recorded ones have six digits.
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
    yield _m3()
    for dialect, row in pruners.COMPARED:
        yield _pruner(dialect, row)
    for variant in gliclass_models.VARIANTS:
        yield _gliclass(variant)
    for variant in gliner2_models.VARIANTS:
        yield _gliner2(variant)
    for kind in gliners.KINDS:
        yield _gliner(kind)
    for row, task in PAIRS:
        yield _row(row, task)
    for family in rerankers.FAMILIES:
        for form in FORMS:
            yield _reranker(family, form)


def _row(row: Row, task: str) -> Comparison:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = save(row, task, folder)
        expected = reference_rows(row, task, reference, folder, TEXTS)
        difference = worst(rows_of(load(folder), task, TEXTS), expected)
        architecture = read_recipe(row.name, folder, None).architecture
    library = type(reference).__module__.partition(".")[0]
    if library == "tests":  # The library lacks the family: written out beside the tests.
        return Comparison(architecture, row.name, task, difference, "formula", "")
    return Comparison(architecture, row.name, task, difference, library, version(library))


def _static() -> Comparison:
    with tempfile.TemporaryDirectory() as name:
        model = test_static.distilled()
        model.save_pretrained(name)
        expected = model.encode(test_static.TEXTS)
        found = dense(test_static.load(Path(name)), test_static.TEXTS)
    difference = worst(list(found), list(expected))
    return Comparison("static", "static", "dense", difference, "model2vec", version("model2vec"))


def _m3() -> Comparison:
    """Compare BGE-M3's three outputs with FlagEmbedding's formulas over transformers' encoder."""
    with tempfile.TemporaryDirectory() as name:
        difference = test_m3.furthest(*test_m3.save_m3(Path(name) / "m3"))
    task = "sparse beside dense"
    return Comparison("xlm-roberta", "bge-m3", task, difference, "transformers", _TRANSFORMERS)


def _pruner(dialect: str, row: str) -> Comparison:
    """Compare a pruner's relevance and probabilities with the formula over transformers' states."""
    with tempfile.TemporaryDirectory() as name:
        difference = pruners.furthest(Path(name), dialect, row)
    return Comparison(row, dialect, "pruning", difference, "transformers", _TRANSFORMERS)


def _gliclass(variant: str) -> Comparison:
    """Compare scores of labels of the caller's own, single and multi-label, with gliclass."""
    with tempfile.TemporaryDirectory() as name:
        pipeline = gliclass_models.save(Path(name), variant)
        difference = gliclass_models.furthest(load(Path(name)), pipeline)
    architecture, _, kind = variant.partition(" ")
    row = f"gliclass {kind}"
    return Comparison(architecture, row, "zero_shot", difference, "gliclass", version("gliclass"))


def _gliner2(variant: str) -> Comparison:
    """Compare entities, relations, records and labels of one schema with gliner2."""
    with tempfile.TemporaryDirectory() as name:
        model = gliner2_models.save(Path(name), variant)
        difference = gliner2_models.furthest(load(Path(name)), model)
    architecture, _, counting = variant.partition(" ")
    row = f"gliner2 {counting}"
    return Comparison(architecture, row, "structure", difference, "gliner2", version("gliner2"))


def _gliner(kind: gliners.Kind) -> Comparison:
    """Compare scores of entities with the gliner package's own, which were recorded with it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gliners.save_gliner(folder, kind)
        difference = test_gliner.compare(load(folder), kind.name, alone=False)
        architecture = read_recipe(kind.name, folder, None).architecture
    recorded = json.loads(gliners.EXPECTED.read_text())["versions"]["gliner"]
    return Comparison(architecture, kind.name, "gliner", difference, "gliner", recorded)


def _reranker(family: str, form: str) -> Comparison:
    """Compare a language model that is asked for relevance with transformers' own logits."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = rerankers.save(family, folder)
        entry = rerankers.entry(score_template=form)
        found = test_causal_rerankers.ask(load(folder, entry))
        expected = test_causal_rerankers.formula(model, folder, FORMS[form], rerankers.DOCUMENTS)
        architecture = read_recipe(family, folder, entry).architecture
    difference = max(abs(a - b) for a, b in zip(found, expected, strict=True))
    task = f"cross_encoder {form}"
    return Comparison(architecture, family, task, difference, "transformers", _TRANSFORMERS)


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
