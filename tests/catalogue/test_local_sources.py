"""Models that are on disk already: in the user's cache, in a folder, and as one file alone."""

import json
from pathlib import Path

import pytest

from sie_mcp.catalogue import fetch, store
from sie_mcp.catalogue.entries import Entry, Source
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import DownloadFailed
from tests.catalogue.folders import files_in
from tests.catalogue.stub_hub import COMMIT, FILES, REPO, StubHub
from tests.catalogue.stub_index import WEIGHTS


def snapshot(user_hub_cache: Path, files: dict[str, bytes]) -> Path:
    """Lay out what another program left in the user's cache."""
    repository = user_hub_cache / f"models--{REPO.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    folder = repository / "snapshots" / COMMIT
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_a_whole_copy_in_the_users_cache_is_used(
    user_hub_cache: Path, cache: Path, hub: StubHub, options: FetchOptions
) -> None:
    folder = snapshot(user_hub_cache, FILES)
    assert fetch.find_hub(REPO, None, cache) == folder
    assert fetch.fetch_hub(REPO, COMMIT, cache, options=options) == folder
    assert fetch.find_hub(REPO, "f" * 40, cache) is None
    assert hub.log == []


MODULES = [
    {"path": "", "type": "acme.models.Transformer"},
    {"path": "1_Pooling", "type": "acme.models.Pooling"},
    {"path": "2_Normalize", "type": "acme.models.Normalize"},
]


@pytest.mark.parametrize(
    "missing", ["modules.json", "tokenizer.json", "model.safetensors", "1_Pooling/config.json", ""]
)
def test_a_copy_in_the_users_cache_that_may_be_partial_is_not_used(
    user_hub_cache: Path, cache: Path, missing: str
) -> None:
    files = {**FILES, "modules.json": json.dumps(MODULES).encode()}
    folder = snapshot(user_hub_cache, {name: files[name] for name in files if name != missing})
    assert fetch.find_hub(REPO, None, cache) == (None if missing else folder)


def test_a_classifier_in_the_users_cache_needs_no_modules(
    user_hub_cache: Path, cache: Path
) -> None:
    config = b'{"architectures": ["BertForSequenceClassification"]}'
    files = {"config.json": config, "model.safetensors": WEIGHTS, "tokenizer.json": b"{}"}
    assert fetch.find_hub(REPO, None, cache) is None
    folder = snapshot(user_hub_cache, files)
    assert fetch.find_hub(REPO, None, cache) == folder


def test_a_copy_without_one_of_its_shards_is_not_used(user_hub_cache: Path, cache: Path) -> None:
    index = json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}})
    snapshot(user_hub_cache, {**FILES, "model.safetensors.index.json": index.encode()})
    assert fetch.find_hub(REPO, None, cache) is None


def test_a_folder_is_a_source(tmp_path: Path, cache: Path, options: FetchOptions) -> None:
    folder = tmp_path / "mine"
    entry = Entry(name="mine", sources=(Source(kind="path", path=folder),))
    with pytest.raises(DownloadFailed, match=r"path .*mine: no config\.json"):
        fetch.fetch_entry(entry, cache, options=options)
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    assert fetch.fetch_entry(entry, cache, options=options) == folder


def test_one_file_of_a_repository_is_a_source(
    hub: StubHub, cache: Path, options: FetchOptions, user_hub_cache: Path
) -> None:
    """A head alone: neither a checkpoint nor found as one."""
    hub.files = {"best.pt": b"a head" * 300, "last.pt": b"another", "LICENSE": b"MIT"}
    entry = Entry(name="head", sources=(Source(kind="hub", repo=REPO, file="best.pt"),))
    folder = fetch.fetch_entry(entry, cache, options=options)
    assert files_in(folder) == {"best.pt", "LICENSE", store.MANIFEST}
    assert fetch.find_local(entry, cache) == folder
    assert fetch.find_hub(REPO, None, cache) is None
    other = Entry(name="head", sources=(Source(kind="hub", repo=REPO, file="worst.pt"),))
    with pytest.raises(
        DownloadFailed, match=r"no worst\.pt in acme/toy; its largest files are best"
    ):
        fetch.fetch_entry(other, cache, options=options)
    copy = snapshot(user_hub_cache, {"worst.pt": b"a head"})
    assert fetch.find_local(other, cache) == copy


def test_one_file_of_a_folder_is_a_source(
    tmp_path: Path, cache: Path, options: FetchOptions
) -> None:
    entry = Entry(name="head", sources=(Source(kind="path", path=tmp_path, file="best.pt"),))
    with pytest.raises(DownloadFailed, match=r"no best\.pt"):
        fetch.fetch_entry(entry, cache, options=options)
    (tmp_path / "best.pt").write_bytes(b"a head")
    assert fetch.fetch_entry(entry, cache, options=options) == tmp_path
