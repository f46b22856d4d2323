"""Token vectors: markers, query expansion, skip list, projection, and MaxSim over them."""

import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import BertModel

from sie_mcp.adapters.adapter import Adapter, Sequence, SequenceOutput
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.errors import InvalidInput, ModelLoadFailed
from tests.running import CPU, encode, encode_request, load, run, score_request, scores
from tests.tiny import (
    HIDDEN_SIZE,
    OLD_TYPES,
    VOCABULARY,
    bert_config,
    save_model,
    save_tokenizer,
    wordpiece,
    write_json,
    write_modules,
)

DIMS = 16
QUERY = "machine learning"
DOCUMENTS = ["Machine learning is a subset of the machine!", "hello, world."]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint as PyLate writes it: two modules, the rest in the settings."""
    save_model(tmp_path, BertModel(bert_config()))
    config = {"in_features": HIDDEN_SIZE, "out_features": DIMS, "bias": False}
    config["activation_function"] = "torch.nn.modules.linear.Identity"
    write_modules(tmp_path, [("Transformer", None), ("Dense", config)], OLD_TYPES)
    weight = torch.randn(DIMS, HIDDEN_SIZE, generator=torch.Generator().manual_seed(5))
    save_file({"linear.weight": weight}, tmp_path / "1_Dense" / "model.safetensors")
    write_settings(tmp_path)
    return tmp_path


def write_settings(folder: Path, **changes: Any) -> None:
    settings = {
        "model_type": "ColBERT",
        "query_prefix": "[unused0]",
        "document_prefix": "[unused1]",
        "query_length": 32,
        "document_length": 100,
        "attend_to_expansion_tokens": False,
        "skiplist_words": list(string.punctuation),
    }
    write_json(folder, "config_sentence_transformers.json", settings | changes)


def _vectors(adapter: Adapter, text: str, **options: Any) -> np.ndarray:
    values: np.ndarray = encode(adapter, [text], "multivector", **options)[0].multivector.values
    return values


def _ids(adapter: Adapter, text: str, **options: Any) -> list[str]:
    request = encode_request([text], "multivector", **options)
    ids = adapter.prepare(request).sequences[0].input_ids
    return [VOCABULARY[index] for index in ids]


def test_a_query_is_filled_up_with_mask_tokens_that_all_count(folder: Path) -> None:
    """Case T15, the query; its marker is one token, right after the first."""
    adapter = load(folder)
    tokens = _ids(adapter, QUERY, is_query=True)
    assert tokens[:5] == ["[CLS]", "[unused0]", "machine", "learning", "[SEP]"]
    assert tokens[5:] == ["[MASK]"] * 27
    assert _vectors(adapter, QUERY, is_query=True).shape == (32, DIMS)


def test_expansion_tokens_see_the_query_and_are_not_seen(folder: Path) -> None:
    expanded = _vectors(load(folder), QUERY, is_query=True)
    write_settings(folder, do_query_expansion=False)
    alone = _vectors(load(folder), QUERY, is_query=True)
    np.testing.assert_allclose(expanded[:5], alone, atol=1e-5)
    write_settings(folder, attend_to_expansion_tokens=True)
    attending = _vectors(load(folder), QUERY, is_query=True)
    assert np.abs(attending[:5] - alone).max() > 1e-2


def test_punctuation_of_documents_does_not_count_and_special_tokens_do(folder: Path) -> None:
    """Case T15, the documents."""
    adapter = load(folder)
    spelled = ["[CLS]", "[unused1]", "hello", ",", "world", ".", "[SEP]"]
    assert _ids(adapter, DOCUMENTS[1]) == spelled
    assert _vectors(adapter, DOCUMENTS[1]).shape == (5, DIMS)
    # A query's punctuation counts.
    write_settings(folder, do_query_expansion=False)
    assert len(_vectors(load(folder), DOCUMENTS[1], is_query=True)) == 7


def test_a_skip_list_may_be_empty_and_is_punctuation_where_missing(folder: Path) -> None:
    write_settings(folder, skiplist_words=[])
    assert len(_vectors(load(folder), DOCUMENTS[1])) == 7
    write_settings(folder, skiplist_words=None)
    assert len(_vectors(load(folder), DOCUMENTS[1])) == 5


def test_every_vector_has_unit_length(folder: Path) -> None:
    """Case T15."""
    adapter = load(folder)
    for is_query in (True, False):
        norms = np.linalg.norm(_vectors(adapter, QUERY, is_query=is_query), axis=1)
        np.testing.assert_allclose(norms, 1.0, atol=1e-5)
    norms = np.linalg.norm(_vectors(adapter, QUERY, dimensions=4), axis=1)
    np.testing.assert_allclose(norms, 1.0, atol=1e-5)


def test_the_score_is_the_sum_of_the_best_cosine_of_every_query_token(folder: Path) -> None:
    """Case T15; the mean is a checkpoint's own choice."""
    adapter = load(folder)
    query = _vectors(adapter, QUERY, is_query=True)
    expected = [(query @ _vectors(adapter, one).T).max(axis=1).sum() for one in DOCUMENTS]
    np.testing.assert_allclose(scores(adapter, QUERY, DOCUMENTS), expected, atol=1e-4)
    answer = run(adapter, score_request(QUERY, DOCUMENTS))
    assert answer.score_type == "similarity"
    assert [one.rank for one in answer.scores] == [0, 1]
    write_settings(folder, similarity_fn_name="meanmaxsim")
    mean = scores(load(folder), QUERY, DOCUMENTS)
    np.testing.assert_allclose(mean, np.array(expected) / 32, atol=1e-5)


def test_the_document_s_own_length_is_the_limit(folder: Path) -> None:
    write_settings(folder, document_length=20)
    item = encode(load(folder), ["alpha " * 50], "multivector")[0]
    assert (item.num_tokens, item.truncated) == (20, True)


def test_a_query_over_its_length_is_cut(folder: Path) -> None:
    item = encode(load(folder), ["alpha " * 50], "multivector", is_query=True)[0]
    assert (item.num_tokens, item.truncated) == (32, True)


def test_a_prompt_of_the_file_stands_after_the_marker(folder: Path) -> None:
    write_settings(folder, prompts={"query": "", "document": "the "}, do_query_expansion=False)
    adapter = load(folder)
    assert _ids(adapter, "one", is_query=True) == ["[CLS]", "[unused0]", "one", "[SEP]"]
    assert _ids(adapter, "one") == ["[CLS]", "[unused1]", "the", "one", "[SEP]"]


def test_a_marker_that_the_tokenizer_does_not_know_stays_text(folder: Path) -> None:
    write_settings(folder, query_prefix="[Q] ", do_query_expansion=False)
    assert _ids(load(folder), "one", is_query=True) == ["[CLS]", "[", "q", "]", "one", "[SEP]"]


def test_expansion_without_a_token_to_fill_up_with_does_not_load(folder: Path) -> None:
    words = [word if word != "[MASK]" else "[nothing]" for word in VOCABULARY]
    Tokenizer.from_str(wordpiece(words).to_str()).save(str(folder / "tokenizer.json"))
    with pytest.raises(ModelLoadFailed, match=r"tokenizer\.json has no '\[MASK\]'"):
        load(folder)


def test_a_mask_of_a_kind_that_is_not_applied_does_not_load(folder: Path) -> None:
    write_json(folder, "config_sentence_transformers.json", {"model_type": "MultiVectorEncoder"})
    types = OLD_TYPES | {"MultiVectorMask": "x.MultiVectorMask"}
    dense = {"in_features": HIDDEN_SIZE, "out_features": DIMS, "bias": False}
    modules = [
        ("Transformer", None),
        ("Dense", dense),
        ("MultiVectorMask", {"keep_only_token_ids": [1]}),
    ]
    write_modules(folder, modules, types)
    with pytest.raises(ModelLoadFailed, match="keep_only_token_ids"):
        load(folder)


def test_any_dense_encoder_offers_its_token_vectors(tmp_path: Path) -> None:
    model = save_model(tmp_path, BertModel(bert_config()))
    save_tokenizer(tmp_path, wordpiece())
    adapter = load(tmp_path)
    ids = adapter.prepare(encode_request([QUERY])).sequences[0].input_ids
    with torch.no_grad():
        states = model(torch.from_numpy(ids)[None])[0][0]
    expected = torch.nn.functional.normalize(states, dim=-1).numpy()
    np.testing.assert_allclose(_vectors(adapter, QUERY), expected, atol=1e-5)


def test_packed_bits_are_refused(folder: Path) -> None:
    request = encode_request([QUERY])
    request.params.output_dtype = "binary"
    with pytest.raises(InvalidInput, match="binary does not apply to token vectors"):
        load(folder).prepare(request)
    with pytest.raises(InvalidInput, match=f"dimensions 17 is over .*{DIMS}"):
        load(folder).prepare(encode_request([QUERY], dimensions=17))


def test_a_batch_that_holds_the_query_gives_scores_and_no_vectors_of_items(folder: Path) -> None:
    """What it gives is what items without their query, compared on the host, have as scores."""
    adapter = load(folder)
    request = score_request(QUERY, [*DOCUMENTS, "?!"])
    expected = [one.score for one in run(adapter, request).scores]
    prepared = adapter.prepare(request)
    together, apart = _outputs(adapter, prepared.sequences), []
    for one in adapter.prepare(request).sequences:
        apart += _outputs(adapter, [one])
    assert [len(one["multivector"]) for one in together] == [32, 0, 0, 0]
    assert [len(one["maxsim"]) for one in together] == [0, 1, 1, 1]
    # Once the query has run, its items of later batches are compared with it.
    assert ["maxsim" in one for one in apart] == [False, True, True, True]
    vectors = _outputs(adapter, adapter.prepare(request).sequences[1:])
    assert all("maxsim" not in one for one in vectors)
    for outputs in (apart, [together[0], *vectors], [together[0], together[1], *vectors[1:]]):
        found = [one.score for one in adapter.finish(request, prepared, outputs).scores]
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_queries_of_several_requests_are_compared_with_their_own_items(folder: Path) -> None:
    write_settings(folder, do_query_expansion=False)
    adapter = load(folder)
    requests = [score_request("alpha", DOCUMENTS), score_request("hello", DOCUMENTS[::-1])]
    prepared = [adapter.prepare(one) for one in requests]
    plain = adapter.prepare(encode_request(["one two"], "multivector")).sequences
    (q1, a1, b1), (q2, a2, b2) = (one.sequences for one in prepared)
    mixed = _outputs(adapter, [a2, q1, *plain, b1, q2, a1, b2])
    assert len(mixed[2]["multivector"]) == len(plain[0].input_ids)
    order = {0: (1, 5, 3), 1: (4, 0, 6)}
    for index, request in enumerate(requests):
        outputs = [mixed[place] for place in order[index]]
        found = adapter.finish(request, prepared[index], outputs).scores
        expected = run(adapter, request).scores
        assert [one.index for one in found] == [one.index for one in expected]
        scores_of = [[one.score for one in answer] for answer in (found, expected)]
        np.testing.assert_allclose(*scores_of, atol=1e-4)


def test_a_number_that_is_none_is_never_passed_over(folder: Path) -> None:
    adapter = load(folder)
    sequences = adapter.prepare(score_request(QUERY, DOCUMENTS)).sequences
    with torch.inference_mode():
        batch = pack(sequences, CPU)
        states = adapter._model.states(batch)
        states[batch.offsets[1] + 2] = torch.nan
        found = unpack(adapter._outputs["multivector"].forward(states, batch), 3)
    assert [bool(np.isnan(one["maxsim"]).any()) for one in found] == [False, True, False]


def _outputs(adapter: Adapter, sequences: list[Sequence]) -> list[SequenceOutput]:
    with torch.inference_mode():
        return unpack(adapter.forward(pack(sequences, CPU)), len(sequences))
