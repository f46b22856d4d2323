"""Models from a hub, through `fetch_hub` and `fetch_entry` and the real huggingface_hub."""

import dataclasses
from pathlib import Path

import pytest

from sie_mcp.catalogue import download, fetch, store
from sie_mcp.catalogue.entries import Entry, Source
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import ModelNotFound
from tests.catalogue.folders import files_in
from tests.catalogue.stub_hub import COMMIT, FILES, MODEL_FILES, REPO, StubHub
from tests.catalogue.stub_index import WEIGHTS


def test_weights_and_settings_come_and_pickles_and_code_do_not(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    folder = fetch.fetch_hub(REPO, None, cache, options=options)
    assert files_in(folder) == MODEL_FILES
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    for unwanted in ("pytorch_model.bin", "modeling_toy.py", "onnx/", "README.md"):
        assert not hub.asked(unwanted) and not hub.asked(unwanted, "HEAD")


def test_another_library_s_copy_of_the_weights_stands_for_none(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    del hub.files["model.safetensors"]
    hub.files |= {"open_clip_model.safetensors": WEIGHTS, "open_clip_config.json": b"{}"}
    folder = fetch.fetch_hub(REPO, None, cache, options=options)
    assert files_in(folder) == MODEL_FILES - {"model.safetensors"} | {"pytorch_model.bin"}
    assert not hub.asked("open_clip")


@pytest.mark.parametrize("allowed", [REPO, "toy"])
def test_code_comes_for_models_that_a_setting_names(
    allowed: str, hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    """By the hub id, or by the name of an entry that has the repository as a source."""
    options = dataclasses.replace(options, allow_remote_code=(allowed,))
    entry = Entry(name="toy", sources=(Source(kind="hub", repo=REPO, revision=COMMIT),))
    folder = fetch.fetch_entry(entry, cache, options=options)
    assert files_in(folder) == MODEL_FILES | {"modeling_toy.py"}


def test_code_does_not_come_with_another_model_s_name(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    options = dataclasses.replace(options, allow_remote_code=("acme", "toy", "acme/toy2", "*"))
    assert files_in(fetch.fetch_hub(REPO, None, cache, options=options)) == MODEL_FILES


def test_a_repository_on_disk_is_found_by_branch_and_by_commit(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    assert fetch.find_hub(REPO, None, cache) is None
    folder = fetch.fetch_hub(REPO, None, cache, options=options)
    hub.log.clear()
    offline = dataclasses.replace(options, offline=True)
    for revision in (None, "main", COMMIT):
        assert fetch.find_hub(REPO, revision, cache) == folder
        assert fetch.fetch_hub(REPO, revision, cache, options=offline) == folder
    assert fetch.find_hub(REPO, "v2", cache) is None
    assert hub.log == []


def test_a_commit_on_disk_serves_the_branch_that_points_to_it(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    pinned = fetch.fetch_hub(REPO, COMMIT, cache, options=options)
    assert fetch.find_hub(REPO, "main", cache) is None
    hub.log.clear()
    assert fetch.fetch_hub(REPO, "main", cache, options=options) == pinned
    assert not hub.asked("/resolve/") and not hub.asked("/resolve/", "HEAD")
    assert fetch.find_hub(REPO, "main", cache) == pinned


def test_hub_progress_reaches_the_total(hub: StubHub, cache: Path, options: FetchOptions) -> None:
    seen: list[tuple[str, int, int]] = []
    watched = dataclasses.replace(options, progress=lambda *told: seen.append(told))
    fetch.fetch_hub(REPO, None, cache, options=watched)
    total = sum(len(FILES[name]) for name in MODEL_FILES - {store.MANIFEST})
    assert seen[-1] == (REPO, total, total)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


@pytest.mark.parametrize("repo", ["toy", "../../etc", "acme/../toy", "acme/toy/more", "/etc/x", ""])
def test_what_is_no_hub_id_is_never_sent_to_a_hub(
    repo: str, hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    with pytest.raises(ModelNotFound, match="is no hub id; it looks like org/name"):
        fetch.fetch_hub(repo, None, cache, options=options)
    assert fetch.find_hub(repo, None, cache) is None
    assert hub.log == []


def test_a_revision_that_leaves_the_folder_is_refused(cache: Path, options: FetchOptions) -> None:
    with pytest.raises(ModelNotFound):
        fetch.fetch_hub(REPO, "../../main", cache, options=options)


def test_what_has_arrived_needs_no_room_again(
    hub: StubHub, cache: Path, options: FetchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = store.work_folder(cache) / f"{store.folder_for(cache, REPO, COMMIT).name}.partial"
    partial.mkdir(parents=True)
    (partial / "model.safetensors").write_bytes(WEIGHTS)
    asked: list[int] = []
    monkeypatch.setattr(download, "refuse_full_disk", lambda folder, needed: asked.append(needed))
    fetch.fetch_hub(REPO, None, cache, options=options)
    names = MODEL_FILES - {store.MANIFEST, "model.safetensors"}
    assert asked == [sum(len(FILES[name]) for name in names)]


def test_weights_in_files_of_pytorch_come_where_there_are_no_others(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    del hub.files["model.safetensors"]
    hub.files |= {"sparse_linear.pt": b"a head", "2_Dense/pytorch_model.bin": b"a layer"}
    hub.files |= {"pruning_head.pt": b"another head"}
    hub.files |= {"3_Dense/pytorch_model.bin": b"twice", "3_Dense/model.safetensors": b"a layer"}
    folder = fetch.fetch_hub(REPO, None, cache, options=options)
    names = files_in(folder)
    assert {"pytorch_model.bin", "sparse_linear.pt", "2_Dense/pytorch_model.bin"} <= names
    assert "pruning_head.pt" in names
    assert "3_Dense/model.safetensors" in names
    assert not hub.asked("3_Dense/pytorch_model.bin")
