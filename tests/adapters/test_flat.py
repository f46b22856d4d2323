"""A model's weights leave and come back: the same bits, nothing left behind, ties kept."""

import gc
from pathlib import Path

import numpy as np
import pytest
import torch
from model2vec import StaticModel
from torch import nn

from sie_mcp.adapters import create
from sie_mcp.adapters.flat import ALIGNMENT, FlatWeights, flatten, plan_places
from tests.parity.checkpoints import save
from tests.parity.jina_tasks import save_tasks
from tests.parity.run import CPU, load
from tests.parity.table import ROWS
from tests.parity.test_jina_tasks import encode
from tests.parity.test_parity import TEXTS, rows_of
from tests.tiny import VOCABULARY, wordpiece

BY_NAME = {row.name: row for row in ROWS}
OURS = ["bert", "modernbert", "nomic_bert-experts", "deberta-v2", "mpnet", "t5", "qwen3", "gemma2"]
OTHERS = [row.name for row in ROWS if not row.packed]
CASES = [(name, "dense") for name in (*OURS, *OTHERS) if "dense" in BY_NAME[name].classes]
CASES += [("bert", "sparse"), ("albert", "sparse"), ("bert", "cross_encoder"), ("mt5", "dense")]
PAGE_BYTES = 4096


def pages_for(weights: FlatWeights) -> list[torch.Tensor]:
    count = -(-weights.size_bytes // PAGE_BYTES)
    return [torch.zeros(PAGE_BYTES, dtype=torch.uint8) for _ in range(count)]


def swap(weights: FlatWeights, pages: list[torch.Tensor]) -> None:
    weights.leave()
    assert not weights.is_here
    weights.enter(CPU, pages)


def of_one_memory(module: nn.Module) -> bool:
    tensors = [*module.parameters(), *module.buffers()]
    starts = [one.data_ptr() % ALIGNMENT for one in tensors if one.numel()]
    first = tensors[0].untyped_storage().data_ptr()
    is_shared = all(one.untyped_storage().data_ptr() == first for one in tensors)
    return is_shared and len(set(starts)) == 1


def live_bytes() -> dict[int, int]:
    """Bytes of each piece of memory that a tensor somewhere keeps."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if type(one) in (torch.Tensor, nn.Parameter)]
    plain = [one for one in tensors if one.device == CPU and one.layout == torch.strided]
    storages = [one.untyped_storage() for one in plain]
    return {one.data_ptr(): one.nbytes() for one in storages}


@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_model_that_was_away_gives_the_same_bits(name: str, task: str, tmp_path: Path) -> None:
    save(BY_NAME[name], task, tmp_path)
    adapter = load(tmp_path)
    weights, texts = adapter.weights, TEXTS[:3]
    assert weights is not None
    assert of_one_memory(adapter._model)
    expected = rows_of(adapter, task, texts)
    pages = pages_for(weights)
    weights.stage(pages)
    for _ in range(3):
        swap(weights, pages)
        found = rows_of(adapter, task, texts)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert of_one_memory(adapter._model)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_nothing_of_a_model_that_left_stays(name: str, task: str, tmp_path: Path) -> None:
    save(BY_NAME[name], task, tmp_path)
    rows_of(load(tmp_path), task, TEXTS[:2])  # What the libraries keep for all models.
    before = live_bytes()
    adapter = load(tmp_path)
    rows_of(adapter, task, TEXTS[:2])
    adapter.weights.leave()
    left = {at: size for at, size in live_bytes().items() if at not in before and size > 512}
    assert not left
    with pytest.raises((AssertionError, IndexError, RuntimeError)):
        rows_of(adapter, task, TEXTS[:2])


@pytest.mark.parametrize(
    "name", {row.config_class: row.name for row in ROWS if row.packed}.values()
)
def test_a_forward_pass_leaves_no_tensor_to_the_collector(name: str, tmp_path: Path) -> None:
    """A tensor in a cycle keeps its memory, on a device too, until the collector happens to run."""
    task = next(iter(BY_NAME[name].classes))
    save(BY_NAME[name], task, tmp_path)
    adapter = load(tmp_path)
    rows_of(adapter, task, TEXTS[:2])
    gc.collect()
    gc.disable()
    try:
        rows_of(adapter, task, TEXTS[:2])
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert not [one for one in gc.garbage if type(one) is torch.Tensor]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_tied_weights_stay_tied(tmp_path: Path) -> None:
    save(BY_NAME["bert"], "sparse", tmp_path)
    adapter = load(tmp_path)
    model, weights = adapter._model, adapter.weights
    table = model.encoder.embeddings.word.weight
    decoder = model.heads["sparse"].decoder.weight
    assert decoder is table
    pages = pages_for(weights)
    weights.stage(pages)
    swap(weights, pages)
    assert decoder.data_ptr() == table.data_ptr()
    assert decoder.shape == table.shape


def test_tables_of_integers_keep_their_dtype(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    model = StaticModel(
        (generator.normal(size=(20, 16)) * 40).astype(np.int8),
        wordpiece(),
        config={"model_type": "model2vec"},
        token_mapping=generator.integers(0, 20, len(VOCABULARY)),
    )
    model.save_pretrained(tmp_path)
    adapter = load(tmp_path)
    encoder = adapter._model.encoder
    pages = pages_for(adapter.weights)
    adapter.weights.stage(pages)
    before = [one.clone() for one in encoder.parameters()]
    swap(adapter.weights, pages)
    assert [one.dtype for one in encoder.parameters()] == [torch.int64, torch.int8]
    assert all(torch.equal(a, b) for a, b in zip(encoder.parameters(), before, strict=True))
    recipe = create.read_recipe("m", tmp_path, None)
    assert create.weight_bytes(recipe, torch.float32) == adapter.weights.size_bytes


def test_views_of_the_same_numbers_have_one_place_and_odd_shapes_their_own() -> None:
    module = nn.Module()
    module.a = nn.Parameter(torch.arange(6.0).view(2, 3))
    module.same = nn.Parameter(module.a.data)
    module.turned = nn.Parameter(torch.arange(6.0).view(2, 3).t())
    module.register_buffer("wide", torch.arange(3)[None].expand(4, 3), persistent=False)
    module.register_buffer("number", torch.tensor(7), persistent=False)
    module.register_buffer("nothing", torch.empty(0), persistent=False)
    values = {name: one.clone() for name, one in named(module).items()}
    weights = flatten(module, CPU, lambda _, one: one.dtype)
    pages = pages_for(weights)
    weights.stage(pages)
    swap(weights, pages)
    assert all(torch.equal(one, values[name]) for name, one in named(module).items())
    assert module.same.data_ptr() == module.a.data_ptr()
    assert module.turned.stride() == (1, 3)
    assert weights.size_bytes == plan_places(module, lambda _, one: one.dtype)[1] == 4 * ALIGNMENT


def named(module: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def test_without_memory_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = nn.Linear(8, 8)
    weights = flatten(module, CPU, lambda _, one: one.dtype)
    x = torch.ones(8)
    expected = module(x)
    pages = pages_for(weights)
    weights.stage(pages)
    weights.leave()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", refuse)
        with pytest.raises(torch.OutOfMemoryError):
            weights.enter(CPU, pages)
    assert not weights.is_here
    weights.enter(CPU, pages)
    assert torch.equal(module(x), expected)


def refuse(*_: object, **__: object) -> torch.Tensor:
    raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_checkpoint_s_own_adapters_leave_with_it(tmp_path: Path) -> None:
    save_tasks(tmp_path / "base")
    before = live_bytes()
    adapter = load(tmp_path / "base")
    expected = encode(adapter, lora="separation")
    assert not np.array_equal(expected[0], encode(adapter)[0])
    pages = pages_for(adapter.weights)
    adapter.weights.stage(pages)
    adapter.weights.leave()
    kept = {one.untyped_storage().data_ptr() for one in pages}
    left = [size for at, size in live_bytes().items() if at not in before and at not in kept]
    assert not [size for size in left if size > 512]
    adapter.weights.enter(CPU, pages)
    found = encode(adapter, lora="separation")
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_who_keeps_addresses_hears_of_it_before_they_are_gone() -> None:
    module = nn.Linear(2, 2)
    weights = flatten(module, torch.device("cpu"), lambda _, one: one.dtype)
    heard = []
    weights.when_leaving(lambda: heard.append(module.weight.numel()))
    weights.leave()
    weights.leave()
    assert heard == [4]
