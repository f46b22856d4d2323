"""Pruners against the plain formula: relevance and every token's probability, in any company."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.adapters.packing import pack, unpack
from tests.parity.pruners import (
    DOCUMENTS,
    QUERY,
    difference,
    formula,
    found,
    make_head,
    mlp,
    request,
    save_pruner,
)
from tests.parity.run import CPU, load, run

TOLERANCE = 1e-5


@pytest.fixture(params=["xlm-roberta", "bert", "deberta-v2", "modernbert"])
def pruner(request, tmp_path):
    reference, head = save_pruner(tmp_path, request.param)
    return load(tmp_path), reference, head, tmp_path


def test_both_outputs_of_one_forward_equal_the_formula(pruner):
    adapter, reference, head, folder = pruner
    expected = formula(reference, mlp(head), folder)
    assert difference(found(adapter), expected) <= TOLERANCE
    # The comparison can fail.
    assert difference(found(adapter), formula(reference, mlp(make_head(4)), folder)) > 1e-2


def test_a_document_is_the_same_alone_and_in_any_order(pruner):
    adapter, *_ = pruner
    together = found(adapter)
    for place, document in enumerate(DOCUMENTS):
        assert difference(found(adapter, [document]), together[place : place + 1]) <= TOLERANCE
    assert difference(found(adapter, DOCUMENTS[::-1]), together[::-1]) <= TOLERANCE


def test_a_pair_is_scored_as_without_the_head(pruner):
    adapter, reference, head, folder = pruner
    expected = [logit for logit, _ in formula(reference, mlp(head), folder)]
    items = [wire.Item(text=text) for text in DOCUMENTS]
    options = wire.ScoreOptions(raw_scores=True)
    asked = wire.ScoreRequest(query=wire.Item(text=QUERY), items=items, options=options)
    response, outputs = run(adapter, asked)
    scores = [one.score for one in sorted(response.scores, key=lambda one: one.index)]
    np.testing.assert_allclose(scores, expected, atol=TOLERANCE, rtol=0)
    assert all(set(output) == {"logits"} for output in outputs)


def test_scores_and_prunings_share_a_batch(pruner):
    adapter, *_ = pruner
    asked = wire.ScoreRequest(query=wire.Item(text=QUERY), items=[wire.Item(text=DOCUMENTS[2])])
    score, pruning = adapter.prepare(asked), adapter.prepare(request(DOCUMENTS[2:3]))
    with torch.inference_mode():
        batch = pack([*score.sequences, *pruning.sequences], CPU)
        mixed = unpack(adapter.forward(batch), 2)
    assert np.abs(mixed[0]["logits"] - mixed[1]["logits"]).max() <= TOLERANCE
    answer = adapter.finish(asked, score, mixed[:1])
    found_in_text = adapter.finish(request(DOCUMENTS[2:3]), pruning, mixed[1:]).items[0]
    assert answer.scores[0].score == pytest.approx(found_in_text.classifications[0].score)


def test_padded_blocks_change_nothing(pruner):
    adapter, *_ = pruner
    sequences = adapter.prepare(request()).sequences
    with torch.inference_mode():
        batch = pack(sequences, CPU)
        packed = unpack(adapter.forward(batch), len(sequences))
        padded = unpack(adapter.forward(replace(batch, allows_kernels=False)), len(sequences))
    for one, other in zip(packed, padded, strict=True):
        assert np.abs(one["keep"] - other["keep"]).max() <= TOLERANCE
