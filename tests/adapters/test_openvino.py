"""Encoders that OpenVINO computes beside those of torch: the same numbers; memory that leaves."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.adapters import checked, create
from sie_mcp.adapters.adapter import Adapter, PackedBatch, Sequence
from sie_mcp.adapters.checked import load_checked
from sie_mcp.adapters.cpu_backend import FAMILIES, CpuBackend
from sie_mcp.adapters.layers.cpu.int8_linear import has_int8
from sie_mcp.adapters.packing import pack
from sie_mcp.adapters.widened import widened
from sie_mcp.catalogue.entries import Catalogue
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.loras import LoraName
from sie_mcp.engine.registry import Registry
from sie_mcp.errors import InferenceError, ModelLoadFailed
from tests.parity.checkpoints import save
from tests.parity.run import CPU, run
from tests.parity.table import ROWS
from tests.parity.test_parity import TEXTS

encoders = pytest.importorskip("sie_mcp.adapters.openvino_encoder", exc_type=ImportError)

BY_NAME = {row.name: row for row in ROWS}
BERTS = [row for row in ROWS if row.config_class and row.name.split("-same")[0] in FAMILIES]
TASKS = ["dense", "sparse", "cross_encoder", "token_classification"]
PAGE_BYTES = 4096
needs_int8 = pytest.mark.skipif(not has_int8(), reason="no products of int8 here")


def load(folder: Path, dtype: torch.dtype, backend: CpuBackend) -> Adapter:
    recipe = create.read_recipe("m", folder, None)
    return create.load_adapter(recipe, device=CPU, dtype=dtype, backend=backend)


def both(folder: Path, dtype: torch.dtype = torch.float32) -> tuple[Adapter, Adapter]:
    return load(folder, dtype, "torch"), load(folder, dtype, "openvino")


def is_in_openvino(adapter: Adapter) -> bool:
    return isinstance(adapter._model.encoder, encoders.OpenvinoEncoder)  # type: ignore[attr-defined]


def states(adapter: Adapter, batch: PackedBatch) -> torch.Tensor:
    with torch.inference_mode():
        found: torch.Tensor = adapter._model.states(batch)  # type: ignore[attr-defined]
    return found


def vectors(adapter: Adapter) -> np.ndarray:
    request = wire.EncodeRequest(items=[wire.Item(text=text) for text in TEXTS])
    _, outputs = run(adapter, request)
    return np.concatenate([one["dense"] for one in outputs])


def sequences(lengths: list[int], seed: int = 0) -> list[Sequence]:
    rng = np.random.default_rng(seed)
    return [Sequence(rng.integers(5, 50, size=length)) for length in lengths]


@pytest.mark.parametrize("row", BERTS, ids=lambda row: row.name)
def test_every_family_gives_what_torch_gives(row, tmp_path: Path) -> None:
    save(row, "dense", tmp_path)
    plain, own = both(tmp_path)
    batch = pack(sequences([3, 3, 1, 60, 57, 20, 64]), CPU)
    torch.testing.assert_close(states(own, batch), states(plain, batch), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_reads_its_states(task: str, tmp_path: Path) -> None:
    save(BY_NAME["bert"], task, tmp_path)
    texts = [wire.Item(text=text) for text in TEXTS[:3]]
    requests: dict[str, wire.Request] = {
        "dense": wire.EncodeRequest(items=texts),
        "sparse": wire.EncodeRequest(items=texts),
        "cross_encoder": wire.ScoreRequest(query=wire.Item(text="river"), items=texts),
        "token_classification": wire.ExtractRequest(items=texts),
    }
    (_, expected), (_, found) = (run(one, requests[task]) for one in both(tmp_path))
    for theirs, ours in zip(expected, found, strict=True):
        for name in theirs:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-5)


def test_tokens_that_are_not_seen_are_not_seen_here_either(tmp_path: Path) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    plain, own = both(tmp_path)
    seen = [Sequence(one.input_ids, num_attended=4) for one in sequences([9, 10, 4])]
    batch = pack(seen, CPU)
    torch.testing.assert_close(states(own, batch), states(plain, batch), rtol=1e-5, atol=1e-5)
    whole = pack(sequences([9, 10, 4]), CPU)
    assert not torch.allclose(states(own, batch), states(own, whole), atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_text_is_the_same_in_any_company_and_order(dtype: torch.dtype, tmp_path: Path) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    own = load(tmp_path, dtype, "openvino")
    several = sequences([7, 64, 8, 7, 30, 1])
    alone = [states(own, pack([one], CPU)) for one in several]
    bounds = 1e-5 if dtype == torch.float32 else 0.1
    for order in (range(6), [5, 3, 1, 0, 2, 4]):
        batch = pack([several[place] for place in order], CPU)
        parts = states(own, batch).split(batch.lengths)
        for place, part in zip(order, parts, strict=True):
            torch.testing.assert_close(part, alone[place], rtol=0, atol=bounds)


def test_a_pass_in_float32_runs_as_ever(tmp_path: Path) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    own = load(tmp_path, torch.bfloat16, "openvino")
    batch = pack(sequences([7, 20]), CPU)
    with widened():
        wide = states(own, batch)
    torch.testing.assert_close(wide, states(own, batch).float(), rtol=0, atol=0.1)


@needs_int8
def test_integers_come_close_and_ignore_a_louder_neighbour(tmp_path: Path) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    plain, own = load(tmp_path, torch.float32, "torch"), load(tmp_path, torch.int8, "openvino")
    short, other = sequences([12, 12])
    batch = pack([short, other], CPU)
    alone = states(own, pack([short], CPU))
    torch.testing.assert_close(states(own, batch)[:12], alone, rtol=0, atol=0.1)
    found, expected = states(own, batch).float(), states(plain, batch)
    assert torch.cosine_similarity(found, expected).min() > 0.99


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, pytest.param(torch.int8, marks=needs_int8)],
    ids=str,
)
def test_weights_leave_and_come_back(dtype: torch.dtype, tmp_path: Path) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    own = load(tmp_path, dtype, "openvino")
    recipe = create.read_recipe("m", tmp_path, None)
    weights, before = own.weights, vectors(own)
    assert weights is not None
    assert weights.size_bytes == create.weight_bytes(recipe, dtype, "openvino")
    assert weights.size_bytes > weights.copy_bytes == create.weight_bytes(recipe, dtype)
    count = -(-weights.copy_bytes // PAGE_BYTES)
    pages = [torch.zeros(PAGE_BYTES, dtype=torch.uint8) for _ in range(count)]
    weights.stage(pages)
    weights.leave()
    layers = own._model.encoder._layers  # type: ignore[attr-defined]
    assert not weights.is_here
    assert (layers._compiled, layers._request, layers._held) == (None, None, {})
    weights.enter(CPU, pages)
    np.testing.assert_allclose(vectors(own), before, rtol=0, atol=0 if dtype != torch.int8 else 0.1)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, pytest.param(torch.int8, marks=needs_int8)],
    ids=str,
)
def test_a_model_that_agrees_with_torch_is_served(
    dtype: torch.dtype, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    assert is_in_openvino(load_checked(recipe, device=CPU, dtype=dtype, backend="openvino"))
    assert not caplog.records


def test_a_model_that_does_not_agree_is_torchs_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    monkeypatch.setitem(checked.MIN_COSINES, torch.float32, 1.1)
    recipe = create.read_recipe("m", tmp_path, None)
    served = load_checked(recipe, device=CPU, dtype=torch.float32, backend="openvino")
    assert not is_in_openvino(served)
    assert "torch instead of openvino model=m reason=dense: cosine" in caplog.text


@pytest.mark.parametrize(
    ("name", "dtype", "reason"),
    [
        ("modernbert", torch.float32, "it has no modernbert, only bert, camembert"),
        ("mpnet", torch.float32, "it has no mpnet"),
        ("bert", torch.float16, "it has no torch.float16"),
    ],
)
def test_what_it_has_not_is_torchs_and_says_so(
    name: str,
    dtype: torch.dtype,
    reason: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    save(BY_NAME[name], "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    served = load_checked(recipe, device=CPU, dtype=dtype, backend="openvino")
    assert not is_in_openvino(served)
    assert f"torch instead of openvino model=m reason={reason}" in caplog.text


def test_what_it_cannot_compile_is_torchs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    monkeypatch.setattr(encoders, "_settings", lambda *_: {"NO_SUCH_SETTING": 1})
    recipe = create.read_recipe("m", tmp_path, None)
    served = load_checked(recipe, device=CPU, dtype=torch.float32, backend="openvino")
    assert not is_in_openvino(served)
    assert "reason=OpenVINO cannot compile the layers" in caplog.text


def test_a_pass_that_fails_is_a_failed_item(tmp_path: Path) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    layers = load(tmp_path, torch.float32, "openvino")._model.encoder._layers  # type: ignore[attr-defined]
    with pytest.raises(InferenceError, match="OpenVINO failed"):
        layers.run(torch.zeros(1, 4, 7), torch.ones(1, 4, dtype=torch.bool))


def test_a_width_that_no_group_divides_is_refused() -> None:
    layer = torch.nn.Module()
    layer.up, layer.down = torch.nn.Linear(33, 64), torch.nn.Linear(64, 33)
    with pytest.raises(ModelLoadFailed, match="divides 33 and 64"):
        encoders._group(layer)


def test_the_loader_counts_what_it_takes_and_lends_no_loras(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    save(BY_NAME["bert"], "dense", tmp_path)
    registry = Registry(Catalogue(models=()), tmp_path, FetchOptions(offline=True))
    plain, own = (
        CheckpointLoader(registry, CPU, torch.float32, backend=one) for one in ("torch", "openvino")
    )
    theirs, ours = plain.plan(str(tmp_path)), own.plan(str(tmp_path))
    assert ours.size_bytes > theirs.size_bytes
    assert ours.loading_bytes == 2 * theirs.size_bytes
    assert ours.revision != theirs.revision
    loaded = own.load(ours)
    assert loaded.weights is not None
    assert loaded.weights.size_bytes == ours.size_bytes
    assert is_in_openvino(loaded)
    with pytest.raises(ModelLoadFailed, match="adds no low-rank adapters; set SIE_MCP_CPU_BACKEND"):
        own.plan(LoraName(str(tmp_path), str(tmp_path)))
    assert not caplog.records
