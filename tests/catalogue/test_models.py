"""Every model of the built-in catalogue: what it must say, and that none of the list is missing."""

import importlib.resources
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.catalogue.entries import INSTRUCTION, Entry
from sie_mcp.catalogue.files import load_catalogue

MODELS = load_catalogue().models
REFERENCE = (Path(__file__).parent / "reference_models.txt").read_text().split()
# Not in our table of architectures yet; "transformers" is what the library itself would run.
# Run by transformers, with code of their own.
GENERIC = "transformers"
WITHOUT_LICENCE = {
    *("R3-embedding-0.6b", "R3-rerank-0.6b", "splade-ecommerce-esci", "splade-mini"),
    "stablebridge-pruner-highlighter",
    *("clip-vit-base-patch16", "clip-vit-base-patch32"),
    *("clip-vit-large-patch14", "clip-vit-large-patch14-336", "clip-ViT-B-32", "clip-ViT-L-14"),
}
NON_COMMERCIAL = ("CC-BY-NC", "NonCommercial")
_NAMES = [entry.name for entry in MODELS]
each_model = pytest.mark.parametrize("entry", MODELS, ids=_NAMES)


@pytest.mark.parametrize("hub_id", REFERENCE)
def test_every_text_model_of_the_list_is_found_by_its_hub_id(hub_id: str) -> None:
    entry = load_catalogue().find(hub_id)
    assert entry is not None
    assert hub_id in {*entry.aliases, *(source.repo for source in entry.sources)}


def test_a_name_or_hub_id_means_one_model() -> None:
    names = [name for entry in MODELS for name in (entry.name, *entry.aliases)]
    repos = [source.repo for entry in MODELS for source in entry.sources if source.repo]
    assert [name for name, times in Counter(names + repos).items() if times > 1] == []


@each_model
def test_it_says_what_an_agent_must_know(entry: Entry) -> None:
    assert entry.tasks and entry.family and entry.size_bytes > 1_000_000
    assert entry.description.endswith(".") and len(entry.description) <= 200


@each_model
def test_it_says_what_a_lawyer_must_know(entry: Entry) -> None:
    assert (entry.name in WITHOUT_LICENCE) == (entry.licence == "")
    is_free = not any(mark in entry.licence for mark in NON_COMMERCIAL)
    assert is_free != ("non-commercial" in entry.description)


@each_model
def test_a_revision_is_a_commit(entry: Entry) -> None:
    revisions = [source.revision for source in entry.sources if source.revision]
    assert all(len(one) == 40 and int(one, 16) >= 0 for one in revisions)


@each_model
def test_its_architecture_is_ours_or_the_library_s(entry: Entry) -> None:
    assert entry.architecture in {"", *ARCHITECTURES, GENERIC}


@each_model
def test_its_prompts_are_texts_in_front(entry: Entry) -> None:
    assert set(entry.prompts) <= {"query", "document"}
    for prompt in entry.prompts.values():
        assert prompt and INSTRUCTION not in prompt and "{text}" not in prompt
        assert prompt.endswith((" ", "\n", ":", "："))
    if entry.instruction_template and "query" in entry.prompts:
        first, last = entry.instruction_template.split(INSTRUCTION)
        assert entry.prompts["query"].startswith(first) and entry.prompts["query"].endswith(last)


@each_model
def test_what_judges_relevance_belongs_to_a_model_that_does(entry: Entry) -> None:
    judges = "cross_encoder" in entry.tasks or "classification" in entry.tasks
    is_told = bool(entry.score_label or entry.score_template or entry.score_instruction)
    assert judges or not is_told
    assert entry.score_template or not entry.score_instruction


def test_each_file_is_sorted_by_name() -> None:
    folder = importlib.resources.files("sie_mcp.catalogue") / "models"
    for file in folder.iterdir():
        names = [model["name"] for model in tomllib.loads(file.read_text("utf-8"))["models"]]
        assert names == sorted(names, key=str.lower)
