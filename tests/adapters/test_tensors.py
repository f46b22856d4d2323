"""Files of weights: PyTorch's own give what safetensors give, and nothing in them ever runs."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sie_mcp import wire
from sie_mcp.adapters import tensors
from sie_mcp.adapters.tensors import SafeTensors
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import save, write_json
from tests.parity.run import load, run
from tests.parity.table import ROWS

BERT = ROWS[0]
MAPS = Path("/proc/self/maps")


def vector(folder):
    request = wire.EncodeRequest(items=[wire.Item(text="alpha beta gamma")])
    return run(load(folder), request)[0].items[0].dense.values


class Evil:
    def __init__(self, marker):
        self._marker = marker

    def __reduce__(self):
        return (open, (str(self._marker), "w"))


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "model"
    save(BERT, "dense", path)
    return path


@pytest.mark.parametrize("most", [0, tensors.MAX_MAPPED_BYTES], ids=["often", "once"])
@pytest.mark.parametrize("is_archive", [True, False], ids=["archive", "old"])
def test_a_file_of_pytorch_gives_the_same_vectors(folder, is_archive, most, monkeypatch):
    monkeypatch.setattr(tensors, "MAX_MAPPED_BYTES", most)
    expected = vector(folder)
    stored = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(
        {"state_dict": stored} if is_archive else stored,
        folder / "pytorch_model.bin",
        _use_new_zipfile_serialization=is_archive,
    )
    assert np.array_equal(vector(folder), expected)


def test_shards_of_pytorch_are_read_and_a_missing_one_is_named(folder):
    expected = vector(folder)
    stored = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = list(stored)
    weight_map = {}
    for number in range(2):
        own = {name: stored[name] for name in names[number::2]}
        torch.save(own, folder / f"pytorch_model-{number}.bin")
        weight_map |= dict.fromkeys(own, f"pytorch_model-{number}.bin")
    write_json(folder / "pytorch_model.bin.index.json", {"weight_map": weight_map})
    assert np.array_equal(vector(folder), expected)
    (folder / "pytorch_model-1.bin").unlink()
    with pytest.raises(ModelLoadFailed, match=r"names pytorch_model-1\.bin, which is not there"):
        load(folder)


@pytest.mark.parametrize("how", ["archive", "plain"])
def test_a_malicious_pickle_is_refused_and_never_run(folder, tmp_path, how):
    """Case T49, pickles."""
    marker = tmp_path / "it-ran"
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    if how == "archive":
        torch.save({"weight": Evil(marker)}, path)
    else:
        path.write_bytes(pickle.dumps({"weight": Evil(marker)}, protocol=2))
    with pytest.raises(ModelLoadFailed, match=r"pytorch_model\.bin .*convert the weights"):
        load(folder)
    assert not marker.exists()


def test_other_content_is_refused(folder):
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    for content, message in (
        ([1, 2], "must hold named tensors"),
        ({"step": 3}, "'step' is not a tensor"),
    ):
        torch.save(content, path)
        with pytest.raises(ModelLoadFailed, match=message):
            load(folder)
    path.write_bytes(b"PK but no archive")
    with pytest.raises(ModelLoadFailed, match=r"pytorch_model\.bin cannot be read"):
        load(folder)


@pytest.mark.skipif(not MAPS.exists(), reason="needs Linux's /proc")
def test_a_safetensors_file_is_mapped_only_while_a_tensor_of_it_is_held(tmp_path):
    path = tmp_path / "mapped.safetensors"
    save_file({"one": torch.ones(64, 64), "two": torch.full((64, 64), 2.0)}, path)
    source = SafeTensors([path])
    held = source.get("one")
    assert path.name in MAPS.read_text()
    assert held.sum() == 64 * 64
    del held
    assert path.name not in MAPS.read_text()
    assert source.get("two").sum() == 2 * 64 * 64
