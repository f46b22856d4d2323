"""Which prompt stands in front of a text, and whether its tokens are pooled."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import BertModel

from sie_mcp.adapters.adapter import Adapter
from sie_mcp.errors import InvalidInput
from tests.running import dense, encode_request, load, run
from tests.tiny import HIDDEN_SIZE, bert_config, save_model, write_json, write_modules

PROMPTS = {"query": "query: ", "document": "passage: ", "sts": None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path, BertModel(bert_config()))
    write_modules(tmp_path, [("Transformer", None), ("Pooling", _pooling())])
    return tmp_path


def _pooling(**changes: Any) -> dict[str, Any]:
    return {"embedding_dimension": HIDDEN_SIZE, "pooling_mode": "mean"} | changes


def _with(folder: Path, **settings: Any) -> Adapter:
    write_json(folder, "config_sentence_transformers.json", settings)
    return load(folder)


def _equal(adapter: Adapter, text: str, *, plain: str, **options: Any) -> bool:
    """Whether the text with these options gives the vector of a text without any prompt."""
    expected = dense(adapter, [plain], prompt="")
    return bool(np.allclose(dense(adapter, [text], **options), expected, atol=1e-6))


def test_queries_and_documents_get_their_own_prompt(folder: Path) -> None:
    adapter = _with(folder, prompts=PROMPTS)
    assert _equal(adapter, "one", plain="passage: one", is_query=False)
    assert _equal(adapter, "one", plain="query: one", is_query=True)


def test_an_item_without_a_role_has_no_role_s_prompt(folder: Path) -> None:
    """Case T11, the first call."""
    assert _equal(_with(folder, prompts=PROMPTS), "one", plain="one")


def test_a_document_takes_the_first_name_that_exists(folder: Path) -> None:
    """Case T11, the third copy: only "passage" says anything."""
    adapter = _with(folder, prompts={"document": "", "passage": "p: "})
    assert _equal(adapter, "one", plain="p: one", is_query=False)
    assert _equal(adapter, "one", plain="one", is_query=True)


def test_the_default_prompt_serves_where_no_other_does(folder: Path) -> None:
    adapter = _with(folder, prompts={"sts": "the "}, default_prompt_name="sts")
    for is_query in (None, True, False):
        assert _equal(adapter, "one", plain="the one", is_query=is_query)


def test_an_empty_query_prompt_is_a_prompt(folder: Path) -> None:
    """Case T11, the second copy: the default is for items with neither prompt, name nor role."""
    prompts = {"query": "", "document": "passage: "}
    adapter = _with(folder, prompts=prompts, default_prompt_name="document")
    assert _equal(adapter, "one", plain="one", is_query=True)
    assert _equal(adapter, "one", plain="passage: one")


def test_an_explicit_prompt_wins_over_a_name_and_a_name_over_the_role(folder: Path) -> None:
    """Case T11."""
    adapter = _with(folder, prompts=PROMPTS)
    assert _equal(adapter, "one", plain="x one", prompt="x ", prompt_name="query")
    assert _equal(adapter, "one", plain="passage: one", prompt_name="document", is_query=True)


def test_an_instruction_stands_in_front(folder: Path) -> None:
    adapter = _with(folder)
    request = encode_request(["one"])
    request.params.instruction = "hello "
    found = run(adapter, request).items[0].dense.values
    np.testing.assert_allclose(found, dense(adapter, ["hello one"])[0], atol=1e-6)


def test_a_wrong_prompt_name_is_an_error_with_those_that_exist(folder: Path) -> None:
    """Case T11."""
    adapter = _with(folder, prompts=PROMPTS)
    with pytest.raises(InvalidInput, match="no prompt 'nope'; it has: query, document, sts"):
        adapter.prepare(encode_request(["one"], prompt_name="nope"))


def test_a_prompt_of_null_is_an_empty_one(folder: Path) -> None:
    """Case T11."""
    adapter = _with(folder, prompts=PROMPTS)
    assert _equal(adapter, "one", plain="one", prompt_name="sts")


def test_the_catalogue_fills_in_prompts_that_no_file_has(folder: Path) -> None:
    adapter = load(folder, prompts={"query": "query: "})
    assert _equal(adapter, "one", plain="query: one", is_query=True)
    assert adapter.card.decisions["prompts"] == "['query'] (catalogue)"


def test_the_prompt_counts_as_read(folder: Path) -> None:
    adapter = _with(folder, prompts=PROMPTS)
    request = encode_request(["one"], is_query=True)
    assert run(adapter, request).items[0].num_tokens == 5  # [CLS] query : one [SEP]


def test_prompt_tokens_are_pooled_only_where_the_checkpoint_says_so(folder: Path) -> None:
    with_prompt = dense(_with(folder, prompts=PROMPTS), ["one two"], is_query=True)
    write_modules(folder, [("Transformer", None), ("Pooling", _pooling(include_prompt=False))])
    adapter = _with(folder, prompts=PROMPTS)
    without = dense(adapter, ["one two"], is_query=True)
    assert np.abs(with_prompt - without).max() > 1e-2
    # What is left: one, two and [SEP], each read with the prompt before it.
    request = encode_request(["one two"], is_query=True)
    assert adapter.prepare(request).sequences[0].num_prompt_tokens == 3
