"""Shared beginnings and low-rank adapters in half precision on the device."""

import dataclasses

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.lora import Lora, LowRank
from sie_mcp.adapters.packing import pack, unpack
from tests.gpu.test_gpu import cosines
from tests.parity.checkpoints import save
from tests.parity.rerankers import DOCUMENTS, FAMILIES, QUERY, entry
from tests.parity.rerankers import save as save_decoder
from tests.parity.run import CPU, load
from tests.parity.table import ROWS
from tests.parity.test_parity import TEXTS, request_for

CUDA = torch.device("cuda")
BY_NAME = {row.name: row for row in ROWS}


def leads(adapter, sequences, device):
    with torch.inference_mode():
        outputs = unpack(adapter.forward(pack(sequences, device)), len(sequences))
    return np.array([float(one["logits"][0, 0]) for one in outputs])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_shared_beginning_gives_what_whole_texts_give(tmp_path, family, record):
    save_decoder(family, tmp_path)
    documents = DOCUMENTS * 8
    source = entry(score_template="qwen3")
    request = wire.ScoreRequest(
        query=wire.Item(text=QUERY), items=[wire.Item(text=one) for one in documents]
    )
    recipe = create.read_recipe("m", tmp_path, source)
    half = create.load_adapter(recipe, device=CUDA, dtype=torch.bfloat16)
    full = load(tmp_path, source)
    sequences = half.prepare(request).sequences
    prefix = sequences[0].prefix
    assert prefix is not None
    whole = [
        dataclasses.replace(
            one, input_ids=np.concatenate([prefix.input_ids, one.input_ids]), prefix=None
        )
        for one in sequences
    ]
    shared, apart = leads(half, sequences, CUDA), leads(half, whole, CUDA)
    exact = leads(full, sequences, CPU)
    record(
        family,
        "causal_reranker",
        "bfloat16",
        shared_against_whole=abs(shared - apart).max(),
        difference=abs(shared - exact).max(),
    )
    assert abs(shared - apart).max() < 0.05
    assert abs(shared - exact).max() < 0.1
    assert abs(exact).max() > 0.2


def test_a_head_on_a_decoder_reads_pairs_whose_query_is_computed_once(tmp_path, record):
    save(BY_NAME["qwen3"], "cross_encoder", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    half = create.load_adapter(recipe, device=CUDA, dtype=torch.bfloat16)
    items = [wire.Item(text=one) for one in DOCUMENTS * 8]
    request = wire.ScoreRequest(query=wire.Item(text="alpha river " * 12), items=items)
    sequences = half.prepare(request).sequences
    assert sequences[0].prefix is not None
    shared = leads(half, sequences, CUDA)
    exact = leads(load(tmp_path), sequences, CPU)
    record("qwen3", "cross_encoder", "bfloat16", shared_difference=abs(shared - exact).max())
    assert abs(shared - exact).max() < 0.05 * max(abs(exact).max(), 1.0)


@pytest.mark.parametrize("name", ["bert", "modernbert", "qwen3"])
def test_texts_with_adapters_of_their_own(tmp_path, name, record):
    save(BY_NAME[name], "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    half = create.load_adapter(recipe, device=CUDA, dtype=torch.bfloat16)
    full = load(tmp_path)
    layers = [path for path, _ in full._model.named_modules() if path.endswith((".qkv", ".out"))]

    def make(seed, device, dtype):
        generator = torch.Generator().manual_seed(seed)
        changes = {}
        for path in layers:
            linear = full._model.get_submodule(path)
            down = torch.randn(4, linear.in_features, generator=generator) * 0.1
            up = torch.randn(linear.out_features, 4, generator=generator) * 0.1
            changes[path] = (LowRank(down.to(device, dtype), up.to(device, dtype), 0),)
        return Lora(wire.ModelCard(name=str(seed)), changes)

    found, expected = [
        rows(adapter, device, [None, make(1, device, dtype), make(2, device, dtype), None])
        for adapter, device, dtype in (
            (half, CUDA, torch.bfloat16),
            (full, CPU, torch.float32),
        )
    ]
    worst = min(cosines(a, b) for a, b in zip(found, expected, strict=True))
    record(name, "lora", "bfloat16", cosine=worst)
    assert worst >= 0.999
    assert cosines(expected[1], rows(full, CPU, [None] * 4)[1]) < 0.999


def rows(adapter, device, loras):
    prepared = adapter.prepare(request_for("dense", TEXTS[:4]))
    sequences = [
        dataclasses.replace(one, lora=lora)
        for one, lora in zip(prepared.sequences, loras, strict=True)
    ]
    with torch.inference_mode():
        outputs = unpack(adapter.forward(pack(sequences, device)), len(sequences))
    return [one["dense"][0] for one in outputs]
