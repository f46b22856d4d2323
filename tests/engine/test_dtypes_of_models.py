"""A model's own dtype comes before the setting for all, where the device can honour it."""

from pathlib import Path

import pytest
import torch

from sie_mcp.catalogue.entries import Catalogue, Entry, Source
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine import hardware
from sie_mcp.engine.hardware import choose_dtype
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.registry import Registry
from sie_mcp.errors import ModelLoadFailed, SettingError
from tests.parity.checkpoints import save
from tests.parity.table import ROWS

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


def loader(folder: Path, dtype: str | None) -> CheckpointLoader:
    entry = Entry.model_validate(
        {"name": "m", "dtype": dtype, "sources": (Source(kind="path", path=folder),)}
    )
    registry = Registry(Catalogue(models=(entry,)), folder, FetchOptions(offline=True))
    return CheckpointLoader(registry, CPU, torch.float32)


def test_a_model_s_own_dtype_comes_first(tmp_path: Path) -> None:
    save(next(row for row in ROWS if row.name == "bert"), "dense", tmp_path)
    plain, own = (loader(tmp_path, dtype).plan("m") for dtype in (None, "bfloat16"))
    assert (plain.dtype, own.dtype) == (torch.float32, torch.bfloat16)
    assert own.size_bytes < plain.size_bytes
    assert own.revision != plain.revision


def test_a_dtype_that_the_device_has_no_products_for_is_refused(tmp_path: Path) -> None:
    save(next(row for row in ROWS if row.name == "bert"), "dense", tmp_path)
    with pytest.raises(ModelLoadFailed, match="m: dtype 'fp8' on cpu: it needs a CUDA device of"):
        loader(tmp_path, "fp8").plan("m")


@pytest.mark.parametrize(("capability", "is_served"), [((8, 9), True), ((8, 6), False)])
def test_fp8_is_for_devices_that_multiply_it(
    capability: tuple[int, int], is_served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware.torch.cuda, "get_device_capability", lambda _: capability)
    if is_served:
        assert choose_dtype("fp8", CUDA) == torch.float8_e4m3fn
        return
    with pytest.raises(SettingError, match=r"capability 8\.9 or more .*use bfloat16 or auto"):
        choose_dtype("fp8", CUDA)
