"""Beginnings that pairs share: in rerankers with a head, and in requests that ask the same."""

import dataclasses

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.adapters.packing import pack, unpack
from tests.parity.checkpoints import save
from tests.parity.rerankers import DOCUMENTS
from tests.parity.run import CPU, load
from tests.parity.table import ROWS

BY_NAME = {row.name: row for row in ROWS}
QUERY = "alpha river " * 12


def score_request(query, documents=DOCUMENTS):
    items = [wire.Item(text=one) for one in documents]
    return wire.ScoreRequest(query=wire.Item(text=query), items=items)


def logits(adapter, sequences):
    with torch.inference_mode():
        outputs = unpack(adapter.forward(pack(sequences, CPU)), len(sequences))
    return np.array([one["logits"][0] for one in outputs])


def whole(sequence):
    ids = np.concatenate([sequence.prefix.input_ids, sequence.input_ids])
    return dataclasses.replace(sequence, input_ids=ids, prefix=None)


@pytest.mark.parametrize("family", ["qwen3", "gemma"])
def test_a_head_on_a_decoder_reads_pairs_whose_query_is_computed_once(tmp_path, family):
    save(BY_NAME[family], "cross_encoder", tmp_path)
    adapter = load(tmp_path)
    sequences = adapter.prepare(score_request(QUERY)).sequences
    (prefix,) = {one.prefix for one in sequences}
    assert len(prefix.input_ids) >= 24
    apart = [whole(one) for one in sequences]
    np.testing.assert_allclose(logits(adapter, sequences), logits(adapter, apart), atol=1e-5)
    mixed = [apart[0], sequences[1], apart[2], sequences[3]]
    np.testing.assert_allclose(logits(adapter, mixed), logits(adapter, apart), atol=1e-5)
    assert {one.prefix for one in adapter.prepare(score_request("alpha")).sequences} == {None}


def test_pairs_that_end_in_padding_are_whole(tmp_path):
    save(BY_NAME["qwen3"], "cross_encoder", tmp_path)
    adapter = load(tmp_path)
    adapter._recipe.config["pad_token_id"] = (
        adapter.prepare(score_request(QUERY)).sequences[0].input_ids[-1]
    )
    assert {one.prefix for one in adapter.prepare(score_request(QUERY)).sequences} == {None}


def test_an_encoder_computes_every_pair_by_itself(tmp_path):
    save(BY_NAME["bert"], "cross_encoder", tmp_path)
    assert {one.prefix for one in load(tmp_path).prepare(score_request(QUERY)).sequences} == {None}


def test_requests_with_the_same_query_share_its_tokens_in_a_batch(tmp_path):
    save(BY_NAME["qwen3"], "cross_encoder", tmp_path)
    adapter = load(tmp_path)
    requests = [score_request(QUERY, one) for one in (["beta x", "gamma"], ["stone", "beta"])]
    first, second = (adapter.prepare(one).sequences for one in requests)
    assert first[0].prefix is not second[0].prefix
    both = [*first, *second]
    batch = pack(both, CPU)
    assert batch.num_prefixes == 1
    apart = [whole(one) for one in both]
    np.testing.assert_allclose(logits(adapter, both), logits(adapter, apart), atol=1e-5)
