"""Who says whether a decoder's tokens see what follows them, and who is asked where nobody does."""

import json

import numpy as np
import pytest

from sie_mcp.catalogue.entries import Entry, Source
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import save
from tests.parity.run import load
from tests.parity.table import ROWS
from tests.parity.test_causal import TEXT, change_config, dense

BY_NAME = {row.name: row for row in ROWS}
CODE = {"auto_map": {"AutoModel": "modeling_qwen.Qwen2Model"}}


def entry(is_causal):
    return Entry(name="m", is_causal=is_causal, sources=(Source(kind="path", path="/m"),))


def change_pooling(folder):
    path = folder / "1_Pooling/config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pooling_mode": "mean"}))


@pytest.mark.parametrize("name", ["qwen2", "mistral", "llama", "gemma2"])
def test_the_catalogue_s_word_goes_before_that_of_the_config(name, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    change_pooling(tmp_path)
    expected = {}
    for value in (True, False):
        change_config(tmp_path, is_causal=value)
        adapter = load(tmp_path)
        expected[value] = dense(adapter, TEXT)
        assert adapter.card.decisions["is_causal"] == f"{value} (config.json)"
    assert np.abs(expected[True] - expected[False]).max() > 1e-3
    for words in ({"is_causal": True}, {"is_causal": None, "attn_type": "causal"}, CODE):
        change_config(tmp_path, **words)
        adapter = load(tmp_path, entry(False))
        assert np.array_equal(dense(adapter, TEXT), expected[False])
        assert adapter.card.decisions["is_causal"] == "False (catalogue)"
    change_config(tmp_path, attn_type="bidirectional", use_bidirectional_attention=True)
    assert np.array_equal(dense(load(tmp_path, entry(True)), TEXT), expected[True])


def test_both_ways_as_gemma_3_says_it_keeps_its_window_when_the_catalogue_agrees(tmp_path):
    save(BY_NAME["gemma3_text-bidirectional-biased"], "dense", tmp_path)
    expected = dense(load(tmp_path), "alpha " * 40)
    assert np.array_equal(dense(load(tmp_path, entry(False)), "alpha " * 40), expected)


@pytest.mark.parametrize("name", ["qwen2", "mistral", "llama"])
def test_a_checkpoint_with_code_of_its_own_must_say_it(name, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    change_config(tmp_path, **CODE)
    with pytest.raises(ModelLoadFailed, match="is_causal in a catalogue entry can say so"):
        load(tmp_path)
    change_config(tmp_path, is_causal=False)
    assert load(tmp_path).card.decisions["is_causal"] == "False (config.json)"


def test_a_family_without_a_choice_refuses_the_catalogue_s_word(tmp_path):
    save(BY_NAME["bert"], "dense", tmp_path)
    with pytest.raises(ModelLoadFailed, match="bert has no choice of"):
        load(tmp_path, entry(True))


def as_llama_bidirec(folder, **changes):
    save(BY_NAME["llama-bidirectional-biased-linear"], "dense", folder)
    expected = dense(load(folder), TEXT)
    named = {"model_type": "llama_bidirec", "is_causal": None, "pooling": "avg"}
    change_config(folder, **{**named, **CODE, **changes})
    return expected


def test_llama_bidirec_is_llama_seeing_both_ways(tmp_path):
    expected = as_llama_bidirec(tmp_path, architectures=["LlamaBidirectionalModel"])
    assert np.array_equal(dense(load(tmp_path), TEXT), expected)
    (tmp_path / "modules.json").unlink()
    assert np.array_equal(dense(load(tmp_path), TEXT), expected)


REFUSALS = [
    ({"pooling": "last"}, "pooling 'last' is not supported; supported: None, 'avg'"),
    ({"architectures": ["LlamaBidirectionalForSequenceClassification"]}, "for classification"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSALS)
def test_what_llama_bidirec_does_otherwise_is_refused(changes, message, tmp_path):
    as_llama_bidirec(tmp_path, **changes)
    (tmp_path / "modules.json").unlink()
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


def test_eurobert_s_pooling_in_its_authors_word(tmp_path):
    save(BY_NAME["eurobert-bos"], "cross_encoder", tmp_path)
    change_config(tmp_path, classifier_pooling="none")
    with pytest.raises(ModelLoadFailed, match="classifier_pooling 'none'"):
        load(tmp_path)
    change_config(tmp_path, clf_pooling="bos")
    assert load(tmp_path).card.decisions["pooling"].startswith("cls")
