"""Every architecture and every head against transformers on the same random weights, float32, CPU."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter, Sequence
from sie_mcp.adapters.create import read_recipe
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.adapters.weights import fill, open_tensors
from tests.parity.families import Case, cases, padded
from tests.running import CPU, encode_request, extract_request, load, run, score_request
from tests.tiny import MAX_LENGTH

TOLERANCE = 1e-5
TEXTS = [
    "alpha",
    "what is machine learning?",
    "hello world, hello document. " * 7,
    "one two three four",
    "the " * 300,
    "é, 3.14!",
]


def _request(task: str) -> wire.Request:
    if task == "cross_encoder":
        return score_request(TEXTS[1], TEXTS)
    if task == "token_classification":
        return extract_request(TEXTS[:4])
    return encode_request(TEXTS, *([task] if task == "sparse" else []))


def _outputs(adapter: Adapter, sequences: list[Sequence]) -> list[dict[str, np.ndarray]]:
    with torch.inference_mode():
        return unpack(adapter.forward(pack(sequences, CPU)), len(sequences))


def _encoder(folder: Path, case: Case) -> torch.nn.Module:
    """Return our encoder filled from the files."""
    recipe = read_recipe("tiny", folder, None)
    architecture = ARCHITECTURES[case.family.architecture]
    with torch.device("meta"):
        model = Model(recipe, architecture)
    source = open_tensors(folder)
    fill(model, source, architecture, recipe, device=CPU, dtype=torch.float32)
    return model.eval().encoder


@pytest.mark.parametrize("case", cases("encoder", variants=True), ids=str)
@torch.inference_mode()
def test_hidden_states_equal_the_reference(case: Case, tmp_path: Path) -> None:
    reference = case.save(tmp_path)
    sequences = load(tmp_path).prepare(encode_request(TEXTS)).sequences
    inputs, real = padded(reference, sequences)
    expected = reference(**inputs).last_hidden_state[real]
    found = _encoder(tmp_path, case)(pack(sequences, CPU))
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= TOLERANCE


@pytest.mark.parametrize("case", cases("encoder"), ids=str)
@torch.inference_mode()
def test_token_types_are_read(case: Case, tmp_path: Path) -> None:
    reference = case.save(tmp_path)
    ids = np.arange(7, 19)
    types = (np.arange(12) > 5).astype(np.int64)
    inputs, real = padded(reference, [Sequence(ids, types)])
    if "token_type_ids" not in inputs:
        pytest.skip("the family has none")
    expected = reference(**inputs).last_hidden_state[real]
    found = _encoder(tmp_path, case)(pack([Sequence(ids, types)], CPU))
    assert (found - expected).abs().max() <= TOLERANCE


def _reference_outputs(case: Case, model: Any, sequences: list[Sequence]) -> list[Any]:
    """Return what each sequence's outputs should be, from transformers' logits."""
    inputs, real = padded(model, sequences)
    with torch.no_grad():
        logits = model(**inputs).logits.float()
    if case.task == "cross_encoder":
        return [{"logits": row[None].numpy()} for row in logits]
    if case.task == "token_classification":
        scores, tags = logits.softmax(-1).max(-1)
        return [
            {"scores": score[mask].numpy(), "tags": tag[mask].numpy()}
            for score, tag, mask in zip(scores, tags, real, strict=True)
        ]
    weights = torch.log1p(torch.relu(logits)).masked_fill(~real[..., None], 0.0).amax(1)
    return [{"sparse": row.numpy()} for row in weights]


def _spread(output: dict[str, np.ndarray], width: int) -> dict[str, np.ndarray]:
    """Return a sparse output as a vector of all weights; others as they are."""
    if "sparse_indices" not in output:
        return output
    vector = np.zeros(width, np.float32)
    vector[output["sparse_indices"]] = output["sparse_values"]
    return {"sparse": vector}


PAIRS = "cross_encoder"
HEADS = (PAIRS, "sparse", "token_classification")


@pytest.mark.parametrize("case", [*cases(*HEADS[1:], variants=True), *cases(PAIRS)], ids=str)
def test_heads_equal_the_reference(case: Case, tmp_path: Path) -> None:
    labels = {"cross_encoder": {"num_labels": 1}, "token_classification": {"num_labels": 5}}
    reference = case.save(tmp_path, **labels.get(case.task, {}))
    adapter = load(tmp_path, tasks=case.tasks)
    sequences = adapter.prepare(_request(case.task)).sequences
    expected = _reference_outputs(case, reference, sequences)
    for raw, other in zip(_outputs(adapter, sequences), expected, strict=True):
        own = _spread(raw, reference.config.vocab_size)
        assert own.keys() == other.keys()
        for name, values in own.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(values, other[name], atol=TOLERANCE, rtol=0)
            else:
                assert np.array_equal(values, other[name])


def _loaded(case: Case, folder: Path) -> tuple[Adapter, wire.Request]:
    labels = {"cross_encoder": {"num_labels": 1}, "token_classification": {"num_labels": 5}}
    case.save(folder, **labels.get(case.task, {}))
    return load(folder, tasks=case.tasks), _request(case.task)


def _assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    for name, values in one.items():
        np.testing.assert_allclose(values, other[name], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("case", cases("encoder", *HEADS), ids=str)
def test_a_sequence_is_the_same_alone_and_in_a_batch(case: Case, tmp_path: Path) -> None:
    adapter, request = _loaded(case, tmp_path)
    sequences = adapter.prepare(request).sequences
    together = _outputs(adapter, sequences)
    for one, sequence in zip(together, sequences, strict=True):
        _assert_same(one, _outputs(adapter, [sequence])[0])


@pytest.mark.parametrize("case", cases("encoder", *HEADS), ids=str)
def test_the_order_of_a_batch_changes_nothing(case: Case, tmp_path: Path) -> None:
    adapter, request = _loaded(case, tmp_path)
    count = len(adapter.prepare(request).sequences)
    plain = run(adapter, request)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(count).tolist()
        shuffled = run(adapter, request, order=order)
        _assert_close(plain.model_dump(), shuffled.model_dump())


def _assert_close(one: Any, other: Any) -> None:
    """Compare two answers: numbers within the tolerance, everything else exactly."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            _assert_close(value, other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            _assert_close(left, right)
    elif isinstance(one, float | np.ndarray):
        np.testing.assert_allclose(one, other, atol=TOLERANCE, rtol=0)
    else:
        assert one == other


@pytest.mark.parametrize("neighbour", [1, 16, 64, MAX_LENGTH])
@pytest.mark.parametrize("case", cases("encoder"), ids=str)
def test_a_neighbour_of_any_length_changes_nothing(
    case: Case, neighbour: int, tmp_path: Path
) -> None:
    adapter, _ = _loaded(case, tmp_path)
    short, long = adapter.prepare(encode_request(["morning coffee", "x " * MAX_LENGTH])).sequences
    other = Sequence(long.input_ids[:neighbour], outputs=long.outputs)
    alone = _outputs(adapter, [short])[0]
    for place in range(3):
        batch = [other, other]
        batch.insert(place, short)
        _assert_same(alone, _outputs(adapter, batch)[place])


@pytest.mark.parametrize("multiple", [8, 64])
@pytest.mark.parametrize("case", cases("encoder"), ids=str)
@torch.inference_mode()
def test_packed_equals_padded_to_any_length(case: Case, multiple: int, tmp_path: Path) -> None:
    reference = case.save(tmp_path)
    sequences = load(tmp_path).prepare(encode_request(TEXTS[:4])).sequences
    inputs, real = padded(reference, sequences, multiple)
    expected = reference(**inputs).last_hidden_state[real]
    found = _encoder(tmp_path, case)(pack(sequences, CPU))
    assert (found - expected).abs().max() <= TOLERANCE


def test_every_architecture_has_a_row_or_a_file_of_its_own() -> None:
    # Static models are compared with their own libraries in test_static.py.
    covered = {case.family.architecture for case in cases("encoder")} | {"static"}
    assert covered == set(ARCHITECTURES)
