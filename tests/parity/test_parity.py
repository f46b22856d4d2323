"""Every architecture × every task it can carry, against the reference library; three invariances.

Float32 on the CPU, tiny random weights: alone as in a batch, in any order, packed as padded.
"""

import inspect
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from tests.parity.checkpoints import save
from tests.parity.row import Row
from tests.parity.run import load, run
from tests.parity.table import ROWS

TOLERANCE = 1e-5
# Neighbours of very different lengths, the longest at the limit.
TEXTS = [
    "morning coffee",
    "x",
    "alpha beta gamma delta " * 4,
    " ".join(f"w{n}" for n in range(64)),
    " ".join(f"w{n % 90}" for n in range(150)),
]
PAIRS = [(row, task) for row in ROWS for task in row.classes]
# The same class with several labels.
PAIRS += [(row, "classification") for row in ROWS if "cross_encoder" in row.classes]
IDS = [f"{row.name}-{task}" for row, task in PAIRS]


@pytest.fixture(scope="module", params=PAIRS, ids=IDS)
def case(request, tmp_path_factory):
    """One checkpoint for all its tests, which only read it."""
    row, task = request.param
    folder = tmp_path_factory.mktemp("case")
    return row, task, save(row, task, folder), load(folder), folder


def request_for(
    task: str, texts: list[str], outputs: Sequence[str] = ("dense", "multivector")
) -> wire.Request:
    """Ask for a task; "dense" is asked for all `outputs`."""
    items = [wire.Item(text=text) for text in texts]
    if task == "cross_encoder":
        options = wire.ScoreOptions(raw_scores=True)
        return wire.ScoreRequest(query=wire.Item(text="alpha river"), items=items, options=options)
    if task == "token_classification":
        return wire.ExtractRequest(items=items)
    if task == "classification":
        params = wire.ExtractParams(options=wire.ExtractOptions(raw_scores=True))
        return wire.ExtractRequest(items=items, params=params)
    names = list(outputs) if task == "dense" else [task]
    return wire.EncodeRequest.model_validate({"items": items, "params": {"output_types": names}})


def rows_of(adapter: Adapter, task: str, texts: list[str]) -> list[np.ndarray]:
    """Return what the adapter computes, one flat array a text."""
    offered = [one for one in ("dense", "multivector") if one in adapter.card.outputs]
    request = request_for(task, texts, offered)
    if task == "token_classification":
        _, outputs = run(adapter, request)
        return [output["scores"] for output in outputs]
    response, _ = run(adapter, request)
    if task == "cross_encoder":
        ordered = sorted(response.scores, key=lambda one: one.index)
        return [np.array([one.score]) for one in ordered]
    if task == "classification":
        by_label = [
            sorted((c.label, c.score) for c in item.classifications) for item in response.items
        ]
        return [np.array([score for _, score in one]) for one in by_label]
    if task == "sparse":
        return [_spread(item.sparse) for item in response.items]
    if "multivector" not in offered:
        return [item.dense.values for item in response.items]
    return [
        np.concatenate([item.dense.values, item.multivector.values.ravel()])
        for item in response.items
    ]


def _spread(sparse: wire.Sparse) -> np.ndarray:
    full = np.zeros(sparse.dims, np.float32)
    full[sparse.indices] = sparse.values
    return full


def reference_rows(row: Row, task: str, model, folder: Path, texts: list[str]) -> list[np.ndarray]:
    """Return what the reference computes on one padded batch, or text by text."""
    if row.sees_padding and len(texts) > 1:
        return [reference_rows(row, task, model, folder, [text])[0] for text in texts]
    config = getattr(model, "config", None)
    if task == "dense" and getattr(config, "is_encoder_decoder", False):
        model = model.get_encoder()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(row.max_length)
    tokenizer.enable_padding(pad_id=0, length=row.max_length if row.fills_up else None)
    given = [("alpha river", text) for text in texts] if task == "cross_encoder" else texts
    encodings = tokenizer.encode_batch(given)
    batch = {
        "input_ids": torch.tensor([one.ids for one in encodings]),
        "attention_mask": torch.tensor([one.attention_mask for one in encodings]),
    }
    if row.tokenizer == "bert":
        batch["token_type_ids"] = torch.tensor([one.type_ids for one in encodings])
    if row.fills_up:
        del batch["attention_mask"]
    if not row.pooling:
        return list(_features(model, batch).numpy())
    taken = inspect.signature(model.forward).parameters
    batch = {name: tensor for name, tensor in batch.items() if name in taken}
    mask = torch.tensor([one.attention_mask for one in encodings]).bool()
    with torch.no_grad():
        output = model(**batch)
    if task == "dense":
        return [
            _dense_and_tokens(h[m], row.pooling)
            for h, m in zip(output.last_hidden_state, mask, strict=True)
        ]
    if task == "sparse":
        return [
            torch.log1p(torch.relu(logits[m])).amax(0).numpy()
            for logits, m in zip(output.logits, mask, strict=True)
        ]
    if task in ("cross_encoder", "classification"):
        return [one.numpy() for one in output.logits]
    probabilities = output.logits.softmax(-1).amax(-1)
    return [one[m].numpy() for one, m in zip(probabilities, mask, strict=True)]


def _features(model, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the vectors that a model makes of texts by itself, as it names them."""
    with torch.no_grad():
        if hasattr(model, "get_text_features"):
            return model.get_text_features(**batch).pooler_output
        output = model(**batch)
    return output.text_embeds if "text_embeds" in output else output.pooler_output


def _dense_and_tokens(hidden_states: torch.Tensor, pooling: str) -> np.ndarray:
    pooled = hidden_states[-1] if pooling == "lasttoken" else hidden_states.mean(0)
    tokens = torch.nn.functional.normalize(hidden_states, dim=-1)
    return np.concatenate([pooled.numpy(), tokens.numpy().ravel()])


def worst(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))


def test_outputs_equal_the_reference(case):
    row, task, reference, adapter, folder = case
    assert adapter.card.packed is row.packed
    if task == "dense":
        assert {*row.outputs} == {*adapter.card.outputs} - {"muvera"}
    expected = reference_rows(row, task, reference, folder, TEXTS)
    assert worst(rows_of(adapter, task, TEXTS), expected) <= TOLERANCE


def test_a_text_is_the_same_alone_and_beside_any_neighbour(case):
    _, task, _, adapter, _ = case
    alone = rows_of(adapter, task, TEXTS[:1])
    for neighbour in TEXTS[1:]:
        beside = rows_of(adapter, task, [TEXTS[0], neighbour])[:1]
        assert worst(beside, alone) <= TOLERANCE


def test_the_order_of_a_batch_changes_nothing(case):
    _, task, _, adapter, _ = case
    forward = rows_of(adapter, task, TEXTS)
    backward = rows_of(adapter, task, TEXTS[::-1])
    assert worst(backward[::-1], forward) <= TOLERANCE


def test_the_comparison_can_fail(case):
    row, task, _, adapter, folder = case
    other = save(row, task, folder / "other", seed=1)
    expected = reference_rows(row, task, other, folder, TEXTS)
    assert worst(rows_of(adapter, task, TEXTS), expected) > 1e-2
