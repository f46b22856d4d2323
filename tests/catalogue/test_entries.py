"""The catalogue as data: what is built in, and what a user's file may say."""

from pathlib import Path

import pytest

from sie_mcp.catalogue.entries import Source
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.errors import SettingError

ENTRY = '[[models]]\nname = "{name}"\nsources = [{{ kind = "path", path = "/models/{name}" }}]\n'


def test_the_starter_kit_can_be_had_without_a_hub() -> None:
    starters = [entry for entry in load_catalogue().models if entry.starter]
    assert [entry.name for entry in starters] == [
        "all-MiniLM-L6-v2",
        "potion-base-8M",
        "splade-tiny",
        "rampart-pii",
    ]
    assert all(entry.sources[-1].kind == "wheel" for entry in starters)


def test_every_primitive_has_a_default_from_the_starter_kit() -> None:
    catalogue = load_catalogue()
    for primitive in ("encode", "score", "extract"):
        entries = [catalogue.find(name) for name in catalogue.defaults[primitive]]
        assert any(entry is not None and entry.starter for entry in entries)


def test_a_model_is_found_by_its_hub_id_too() -> None:
    entry = load_catalogue().find("sentence-transformers/all-MiniLM-L6-v2")
    assert entry is not None and entry.name == "all-MiniLM-L6-v2"


def test_an_unknown_name_gets_the_near_ones() -> None:
    error = load_catalogue().not_found("all-minilm-l6")
    assert "no model 'all-minilm-l6'; known: all-MiniLM-L6-v2" in str(error)
    assert "hub id (org/name)" in str(error)
    assert "GET /v1/models and `sie-mcp models list` name all" in str(error)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ALL-MINILM-l6-v3", "all-MiniLM-L6-v2"),
        ("BAAI/bge-small-en-v1.4", "bge-small-en-v1.5"),
        ("someone/bge_m3", "bge-m3"),
    ],
)
def test_the_nearest_is_first_whatever_its_case_and_its_owner(name: str, near: str) -> None:
    assert f"no model {name!r}; known: {near}" in str(load_catalogue().not_found(name))


def test_the_users_entries_win(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text(ENTRY.format(name="potion-base-8M") + '[defaults]\nscore = ["splade-tiny"]\n')
    catalogue = load_catalogue(file)
    entry = catalogue.find("potion-base-8M")
    assert entry is not None and [source.kind for source in entry.sources] == ["path"]
    assert catalogue.defaults["score"] == ("splade-tiny",)
    assert catalogue.defaults["extract"] == ("rampart-pii",)
    assert catalogue.find("splade-tiny") is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = 3", "models"),
        ("models = [", "models.toml: "),
        (ENTRY.format(name="a") + "colour = 'red'", "colour"),
        (ENTRY.format(name="a") + ENTRY.format(name="a"), "two entries are named a"),
        (ENTRY.format(name="a") + "[defaults]\nencode = ['b']", "defaults.encode names 'b'"),
        (ENTRY.format(name="a") + 'base = "b"', "a has base 'b', which is not an entry"),
        (ENTRY.format(name="a") + "profiles.default.threshold = 2", "threshold"),
        (ENTRY.format(name="../a"), "name"),
        (ENTRY.format(name="a") + 'instruction_template = "Q: "', "must hold {instruction} once"),
        (ENTRY.format(name="a") + 'score_template = "Say yes"', "score_template"),
        ('[[models]]\nname = "a"\nsources = [{ kind = "ftp" }]', "'hub', 'wheel' or 'path'"),
    ],
)
def test_a_wrong_file_stops_the_start_and_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "models.toml"
    file.write_text(text)
    with pytest.raises(SettingError) as caught:
        load_catalogue(file)
    assert str(file) in str(caught.value)
    assert message in str(caught.value)


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be read"):
        load_catalogue(tmp_path / "nowhere.toml")


WHEEL = {"kind": "wheel", "package": "toy", "version": "1", "sha256": "0" * 64, "prefix": "toy/"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "hub"}, "a hub source needs repo"),
        ({"kind": "hub", "repo": "toy"}, "repo 'toy' is wrong: org/name"),
        ({"kind": "hub", "repo": "../toy"}, "is wrong"),
        ({"kind": "hub", "repo": "acme/toy", "revision": "../x"}, "a branch, tag or commit"),
        ({"kind": "hub", "repo": "acme/toy", "prefix": "x/"}, "a hub source has no prefix"),
        ({**WHEEL, "sha256": ""}, "needs sha256"),
        ({**WHEEL, "sha256": "abc"}, "64 hexadecimal digits"),
        ({**WHEEL, "prefix": "toy"}, "ending with /"),
        ({**WHEEL, "prefix": "../toy/"}, "a folder in the archive"),
        ({**WHEEL, "prefix": "/toy/"}, "a folder in the archive"),
        ({**WHEEL, "package": "--index-url=x"}, "a distribution's name"),
        ({**WHEEL, "version": "1; rm"}, "an exact version"),
        ({**WHEEL, "filename": "toy.tar.gz"}, "ending with .whl"),
        ({"kind": "path"}, "needs path"),
        ({"kind": "path", "path": "/x", "file": "../best.pt"}, "a file's name"),
        ({"kind": "hub", "repo": "acme/toy", "file": "a/b.pt"}, "a file's name"),
    ],
)
def test_a_source_that_cannot_work_is_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match="Source") as caught:
        Source.model_validate(fields)
    assert message in str(caught.value)


def test_of_a_long_unknown_name_the_error_shows_the_beginning() -> None:
    error = load_catalogue(None).not_found("a" * 5_000)
    assert len(str(error)) < 500
