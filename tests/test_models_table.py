"""docs/models.md is what its generator makes of the catalogue and of the recorded parity."""

import json

from evals import models_table
from sie_mcp.catalogue.entries import Entry, Source
from sie_mcp.catalogue.files import load_catalogue

RECORD = json.loads(models_table.RECORD.read_text("utf-8"))
SOURCE = Source(kind="hub", repo="acme/toy")


def test_the_page_is_up_to_date() -> None:
    made = models_table.page(load_catalogue(), RECORD)
    assert models_table.PAGE.read_text("utf-8") == made, "run python -m evals.models_table"


def test_every_recorded_difference_is_within_the_tolerance() -> None:
    for one in RECORD["comparisons"]:
        assert one["max_difference"] <= RECORD["tolerance"], one


def test_every_model_of_the_catalogue_is_on_the_page_once() -> None:
    lines = models_table.PAGE.read_text("utf-8").splitlines()
    for entry in load_catalogue().models:
        starts = (f"| {entry.name} |", f"| [{entry.name}](")
        assert sum(line.startswith(starts) for line in lines) == 1, entry.name


def _cells(**fields: object) -> list[str]:
    entry = Entry.model_validate({"name": "toy", "sources": (SOURCE,), "family": "toy", **fields})
    catalogue = load_catalogue().model_copy(update={"models": (entry,)})
    lines = models_table.page(catalogue, RECORD).splitlines()
    return next(line for line in lines if "acme/toy" in line).strip("| ").split(" | ")


def test_what_is_not_compared_is_not_called_verified() -> None:
    assert _cells(tasks=("dense",), architecture="bert")[3] == "yes"
    assert _cells(tasks=("dense",), architecture="bert")[4].startswith("transformers ")
    for fields in (
        {"tasks": ("dense",), "architecture": "unheard-of"},
        {"tasks": ("dense", "sparse"), "architecture": "bert"},
        {"tasks": ("cross_encoder",), "architecture": "qwen3", "score_template": "unheard-of"},
    ):
        assert _cells(**fields)[4:6] == ["–", "–"]
    assert _cells(tasks=("dense",), architecture="unheard-of")[3] == "no"
    assert _cells(tasks=("dense",), architecture="transformers")[3] == "no"
