"""Whole-number vectors and MUVERA's fixed-size form: formulas, limits, and what they are for."""

import numpy as np
import pytest
from sentence_transformers.util.quantization import quantize_embeddings

from sie_mcp import wire
from sie_mcp.adapters.muvera import fixed_size
from sie_mcp.adapters.quantize import check_ranges, convert
from sie_mcp.adapters.similarity import maxsim
from sie_mcp.errors import InvalidInput

RANDOM = np.random.default_rng(0)


def params(dtype, **options):
    return wire.EncodeParams.model_validate({"output_dtype": dtype, "options": options})


@pytest.mark.parametrize("dtype", ["int8", "uint8", "binary", "ubinary"])
def test_whole_numbers_equal_the_library_s_over_the_same_ranges(dtype):
    vectors = RANDOM.normal(size=(20, 16)).astype(np.float32)
    ranges = np.stack([vectors.min(axis=0), vectors.max(axis=0)])
    expected = quantize_embeddings(vectors, dtype, ranges=ranges)
    options = {"quantization_ranges": ranges.tolist()} if "int8" in dtype else {}
    for vector, row in zip(vectors, expected, strict=True):
        found = convert(vector, params(dtype, **options))
        assert found.values.dtype == row.dtype
        assert np.array_equal(found.values, row)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("uint8", 128)])
def test_without_ranges_a_vector_has_its_own_scale(dtype, zero):
    vector = RANDOM.normal(size=384).astype(np.float32)
    found = convert(vector, params(dtype))
    back = found.scale * (found.values.astype(np.float32) - zero)
    assert np.abs(back - vector).max() <= found.scale / 2 + 1e-6
    cosine = back @ vector / np.linalg.norm(back) / np.linalg.norm(vector)
    assert cosine > 0.9999
    zeros = convert(np.zeros(4, np.float32), params(dtype))
    assert zeros.values.tolist() == [zero] * 4


def test_numbers_outside_the_ranges_take_the_nearest_step():
    ranges = [[-1.0, -1.0], [1.0, 1.0]]
    found = convert(np.array([-7, 7], np.float32), params("int8", quantization_ranges=ranges))
    assert found.values.tolist() == [-128, 127]


@pytest.mark.parametrize(
    ("dtype", "ranges", "message"),
    [
        ("float32", [[0, 0], [1, 1]], "int8 and uint8 only"),
        ("int8", [[0], [1, 1]], "need 2 numbers in each row, they have 1 and 2"),
        ("int8", [[0, 1], [1, 1]], "each least value must be under its greatest"),
    ],
)
def test_ranges_that_do_not_fit_are_refused(dtype, ranges, message):
    with pytest.raises(InvalidInput, match=message):
        check_ranges(params(dtype, quantization_ranges=ranges), 2)


def unit(count, dims):
    vectors = RANDOM.normal(size=(count, dims)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def slow_form(vectors, options, *, is_query):
    """Return the paper's formula, cell by cell."""
    random = np.random.RandomState(options.seed)
    dims = vectors.shape[1]
    normals = random.standard_normal((options.repetitions, options.num_bits, dims))
    signs = random.choice([-1.0, 1.0], (options.repetitions, dims, options.dims))
    blocks = []
    for repetition in range(options.repetitions):
        bits = [[float(n @ v) > 0 for n in normals[repetition]] for v in vectors]
        for cell in range(2**options.num_bits):
            wanted = [bool(cell >> place & 1) for place in range(options.num_bits)]
            inside = [v for v, own in zip(vectors, bits, strict=True) if own == wanted]
            block = np.sum(inside, axis=0) if inside else np.zeros(dims)
            if not is_query and inside:
                block = block / len(inside)
            elif not is_query:
                away = [sum(a != b for a, b in zip(own, wanted, strict=True)) for own in bits]
                block = vectors[int(np.argmin(away))]
            blocks.append(block @ signs[repetition] / np.sqrt(options.dims))
    return np.concatenate(blocks)


@pytest.mark.parametrize("is_query", [True, False])
def test_the_fixed_size_form_is_the_papers(is_query):
    options = wire.MuveraOptions(repetitions=3, num_bits=3, dims=4, seed=7)
    vectors = unit(6, 16)
    found = fixed_size(vectors, options, is_query=is_query)
    assert np.allclose(found, slow_form(vectors, options, is_query=is_query), atol=1e-5)
    assert np.array_equal(found, fixed_size(vectors, options, is_query=is_query))


def test_its_dot_product_ranks_as_late_interaction_does():
    """What it is for: nearest by the fixed-size form is nearest by MaxSim, mostly."""
    options = wire.MuveraOptions()
    documents = [unit(30, 64) for _ in range(40)]
    forms = np.stack([fixed_size(one, options, is_query=False) for one in documents])
    found = 0
    for target in range(20):
        noisy = documents[target][:8] + 0.05 * RANDOM.normal(size=(8, 64)).astype(np.float32)
        best = int(np.argmax([maxsim(noisy, one) for one in documents]))
        scores = forms @ fixed_size(noisy, options, is_query=True)
        found += int(np.argmax(scores)) == best
    assert found >= 18


def test_no_token_is_the_zero_vector():
    form = fixed_size(np.zeros((0, 32), np.float32), wire.MuveraOptions(), is_query=False)
    assert form.shape == (10_240,)
    assert not form.any()
