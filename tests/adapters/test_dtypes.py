"""Which dtype a model may be loaded in, and which one is chosen where none is asked for."""

import pytest
import torch

from sie_mcp.adapters import create
from sie_mcp.catalogue.entries import Catalogue
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.hardware import choose_dtype
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.registry import Registry
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import save
from tests.parity.run import CPU
from tests.parity.table import ROWS

BY_NAME = {row.name: row for row in ROWS}
OVERFLOWING = ["t5", "gemma2", "gemma3_text"]


def loader(folder, dtype):
    registry = Registry(Catalogue(models=()), folder, FetchOptions(offline=True))
    return CheckpointLoader(registry, CPU, dtype)


@pytest.mark.parametrize("name", OVERFLOWING)
def test_float16_is_refused_before_any_weight_is_read(name, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelLoadFailed, match="overflows dtype float16; use bfloat16 or float32"):
        loader(tmp_path, torch.float16).plan(str(tmp_path))
    recipe = create.read_recipe("m", tmp_path, None)
    with pytest.raises(ModelLoadFailed, match="overflows dtype float16; use bfloat16 or float32"):
        create.load_adapter(recipe, device=CPU, dtype=torch.float16)


@pytest.mark.parametrize("name", OVERFLOWING)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_dtypes_that_hold_the_hidden_states_are_served(name, dtype, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    whole = loader(tmp_path, dtype)
    assert whole.load(whole.plan(str(tmp_path))).card.dims["dense"] == 32


@pytest.mark.parametrize("name", ["bert", "gemma"])
def test_other_families_take_float16(name, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    whole = loader(tmp_path, torch.float16)
    assert whole.load(whole.plan(str(tmp_path))).card.dims["dense"] == 32


def test_auto_never_chooses_float16():
    chosen = {kind: choose_dtype("auto", torch.device(kind)) for kind in ("cpu", "cuda", "mps")}
    assert chosen == {"cpu": torch.float32, "cuda": torch.bfloat16, "mps": torch.float32}
