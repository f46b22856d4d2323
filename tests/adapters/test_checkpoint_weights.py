"""A checkpoint's weights: that they fit, in how many files they come, and what they take."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.errors import ModelLoadFailed
from tests.adapters.bert_vectors import BERT, TEXTS, vectors
from tests.parity.checkpoints import save, write_json
from tests.parity.run import CPU, load, run


def test_weights_must_fit_the_config_exactly(tmp_path):
    folder = tmp_path / "m"
    save(BERT, "dense", folder)
    tensors = load_file(folder / "model.safetensors")
    name = "encoder.layer.1.output.dense.weight"

    def with_tensors(changed):
        save_file(changed, folder / "model.safetensors")
        with pytest.raises(ModelLoadFailed) as caught:
            load(folder)
        return str(caught.value)

    assert "layers.1.down.weight" in with_tensors({k: v for k, v in tensors.items() if k != name})
    assert "has shape [3, 3]" in with_tensors(tensors | {name: torch.zeros(3, 3)})
    assert "'surprise' is unknown" in with_tensors(tensors | {"surprise": torch.zeros(1)})
    assert "is not finite" in with_tensors(tensors | {name: torch.full((32, 64), float("nan"))})


def test_shards_and_legacy_names_are_read(tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "shards"
    save(BERT, "dense", whole)
    save(BERT, "dense", folder)
    tensors = load_file(folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    halves = [dict(list(old.items())[::2]), dict(list(old.items())[1::2])]
    index = {}
    for number, half in enumerate(halves):
        save_file(half, folder / f"model-{number}.safetensors")
        index |= dict.fromkeys(half, f"model-{number}.safetensors")
    (folder / "model.safetensors").unlink()
    write_json(folder / "model.safetensors.index.json", {"weight_map": index})
    assert np.array_equal(vectors(folder), vectors(whole))
    (folder / "model-1.safetensors").unlink()
    with pytest.raises(ModelLoadFailed, match=r"model-1.safetensors, which is not there"):
        load(folder)


def test_the_size_is_known_before_loading(tmp_path):
    reference = save(BERT, "dense", tmp_path / "m")
    recipe = create.read_recipe("m", tmp_path / "m", None)
    own = {n: p for n, p in reference.named_parameters() if not n.startswith("pooler")}
    expected = sum(parameter.numel() for parameter in own.values())
    for dtype in (torch.float32, torch.bfloat16):
        planned = create.weight_bytes(recipe, dtype)
        adapter = create.load_adapter(recipe, device=CPU, dtype=dtype)
        assert planned == adapter.weights.size_bytes
        # Each starts where kernels read fastest.
        assert 0 <= planned - expected * dtype.itemsize < 256 * len(own)


def test_a_tied_decoder_is_counted_once(tmp_path):
    save(BERT, "sparse", tmp_path / "m")
    recipe = create.read_recipe("m", tmp_path / "m", None)
    names = load_file(tmp_path / "m/model.safetensors")
    assert "cls.predictions.decoder.weight" not in names
    stored = sum(tensor.numel() for tensor in names.values())
    planned = create.weight_bytes(recipe, torch.float32)
    assert 0 <= planned - stored * 4 < 256 * len(names)
    assert planned == load(tmp_path / "m").weights.size_bytes


def test_half_precision_is_close(tmp_path):
    save(BERT, "dense", tmp_path / "m")
    recipe = create.read_recipe("m", tmp_path / "m", None)
    adapter = create.load_adapter(recipe, device=CPU, dtype=torch.bfloat16)
    request = wire.EncodeRequest(items=[wire.Item(text=text) for text in TEXTS])
    half = np.stack([one.dense.values for one in run(adapter, request)[0].items])
    full = vectors(tmp_path / "m")
    cosines = (half * full).sum(1) / np.linalg.norm(half, axis=1) / np.linalg.norm(full, axis=1)
    assert cosines.min() > 0.999
