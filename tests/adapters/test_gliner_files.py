"""What a GLiNER's files say: settings that are served or refused, tokenizers, words of memory."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.create import load_adapter, read_recipe
from sie_mcp.adapters.gliner import layers
from sie_mcp.catalogue.completeness import is_evidently_whole, missing_part
from sie_mcp.errors import ModelLoadFailed
from tests.gliner_names import save_gliner_of_names
from tests.parity.gliners import BY_NAME, LABELS, TEXTS, save_gliner
from tests.running import CPU, extract, load
from tests.tiny import change_json


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("span_mode", "conv_share", "span_mode 'conv_share' is not supported; supported: 'marker'"),
        ("span_mode", "markerV2", "span_mode 'markerV2' is not supported"),
        ("subtoken_pooling", "sum", "subtoken_pooling 'sum' is not supported"),
        ("words_splitter_type", "jieba", "words_splitter_type 'jieba' is not supported"),
        ("fuse_layers", True, "fuse_layers True is not supported"),
        ("represent_spans", True, "represent_spans True is not supported"),
        ("span_encoder_config", {}, "span_encoder_config {} is not supported"),
        ("precomputed_prompts_mode", True, "precomputed_prompts_mode True is not supported"),
        ("labels_decoder", "gpt2", "labels_decoder 'gpt2' is not supported"),
        ("relations_layer", "biaffine", "relations_layer 'biaffine' is not supported"),
        ("model_type", "gliner_streaming_span", "model_type 'gliner_streaming_span' is not"),
        ("max_len", 0, "max_len 0 must be a number over 0"),
        ("max_width", "12", "max_width '12' must be a number over 0"),
        ("new_trick", 1, "new_trick 1 is not known here"),
        ("encoder_config", {"model_type": "lfm2"}, "'lfm2', which has no form here"),
        ("encoder_config", None, "model_name 'tiny' is not known here; known: microsoft/deb"),
        ("num_rnn_layers", 1, "lacks the weights of"),
        ("hidden_size", 48, "lacks the weights of"),
    ],
)
def test_settings_that_would_change_the_numbers_are_refused(tmp_path, key, value, message) -> None:
    save_gliner_of_names(tmp_path)
    change_json(tmp_path, "gliner_config.json", **{key: value})
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


def test_what_trained_it_is_no_reason_to_refuse(tmp_path: Path) -> None:
    older = {"lr_encoder": "1e-5", "size_sup": -1, "random_drop": True, "prev_path": "none"}
    save_gliner_of_names(tmp_path, **older)
    assert extract(load(tmp_path), ["Ann"], ["name"])[0].entities


def test_two_encoders_that_are_fused_are_refused(tmp_path: Path) -> None:
    save_gliner(tmp_path, BY_NAME["bi-deberta-bert"])
    change_json(tmp_path, "gliner_config.json", post_fusion_schema="l2l-l2t")
    with pytest.raises(ModelLoadFailed, match="post_fusion_schema 'l2l-l2t' of a bi-encoder"):
        load(tmp_path)


def _with_tokenizer_from(folder: Path, other: Path) -> Adapter:
    recipe = read_recipe("tiny", folder, None, head_folder=other)
    return load_adapter(recipe, device=CPU, dtype=torch.float32)


def test_a_tokenizer_may_lie_elsewhere(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir(), other.mkdir()
    save_gliner_of_names(own)
    assert missing_part(own) == "" and is_evidently_whole(own)
    shutil.move(own / "tokenizer.json", other / "tokenizer.json")
    with pytest.raises(ModelLoadFailed, match=r"it has no tokenizer.json; put that of tiny into"):
        load(own)
    adapter = _with_tokenizer_from(own, other)
    assert [one.text for one in extract(adapter, ["Ann met Bob"], ["name"])[0].entities] == [
        "Ann",
        "Bob",
    ]


def test_the_labels_tokenizer_may_lie_elsewhere(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    save_gliner(own, BY_NAME["bi-deberta-bert"])
    expected = extract(load(own), TEXTS, LABELS)
    shutil.move(own / "labels_tokenizer", other)
    with pytest.raises(ModelLoadFailed, match="put that of tiny-labels there"):
        load(own)
    assert extract(_with_tokenizer_from(own, other), TEXTS, LABELS) == expected


def test_a_tokenizer_that_it_was_not_trained_with_is_refused(tmp_path: Path) -> None:
    save_gliner_of_names(tmp_path)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["another"] = len(tokenizer["model"]["vocab"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ModelLoadFailed, match="its word table"):
        load(tmp_path)


def test_an_index_that_the_tokenizer_does_not_have_is_refused(tmp_path: Path) -> None:
    save_gliner(tmp_path, BY_NAME["bert-mean"])
    change_json(tmp_path, "gliner_config.json", class_token_index=7)
    with pytest.raises(ModelLoadFailed, match="class_token_index 7, its tokenizer reads ent_token"):
        load(tmp_path)


def test_pickled_weights_are_read_too(tmp_path: Path) -> None:
    save_gliner(tmp_path, BY_NAME["deberta"])
    expected = extract(load(tmp_path), TEXTS, LABELS)
    torch.save(load_file(tmp_path / "model.safetensors"), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    assert extract(load(tmp_path), TEXTS, LABELS) == expected


@pytest.mark.parametrize("name", ["deberta", "bert-v1", "bert-token-no-marker"])
def test_scores_are_the_same_in_blocks_of_any_size(tmp_path, monkeypatch, name) -> None:
    save_gliner(tmp_path, BY_NAME[name])
    adapter = load(tmp_path)
    expected = extract(adapter, TEXTS, LABELS, threshold=0.2)
    assert any(item.entities for item in expected)
    for size in (1, 100_000):
        monkeypatch.setattr(layers, "MAX_WORKSPACE_BYTES", size)
        for one, other in zip(
            extract(adapter, TEXTS, LABELS, threshold=0.2), expected, strict=True
        ):
            assert [e.model_dump(exclude={"score"}) for e in one.entities] == [
                e.model_dump(exclude={"score"}) for e in other.entities
            ]
            scores = [[e.score for e in both.entities] for both in (one, other)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_no_intermediate_tensor_outgrows_the_workspace(tmp_path, monkeypatch) -> None:
    save_gliner(tmp_path, BY_NAME["deberta"])
    adapter = load(tmp_path)
    limit = 2_000_000
    monkeypatch.setattr(layers, "MAX_WORKSPACE_BYTES", limit)
    sizes: list[int] = []

    def note(_module, _inputs, output) -> None:
        sizes.append(output.nbytes)

    head = adapter._forward._head
    hooks = [one.register_forward_hook(note) for one in head.spans.modules()]
    extract(adapter, ["stone river " * 190], LABELS)
    for hook in hooks:
        hook.remove()
    assert len(sizes) > 20 and max(sizes) <= limit


def test_labels_of_a_second_encoder_are_read_once(tmp_path: Path, monkeypatch) -> None:
    save_gliner(tmp_path, BY_NAME["bi-deberta-bert"])
    adapter = load(tmp_path)
    encoded: list[int] = []
    head = adapter._forward._head  # type: ignore[attr-defined]
    head.labels_encoder.register_forward_hook(
        lambda _m, given, _o: encoded.append(given[0].num_seqs)
    )
    first = extract(adapter, TEXTS, LABELS, overlap="all")
    assert encoded == [len(LABELS)]
    for one, other in zip(first, extract(adapter, TEXTS, LABELS[::-1], overlap="all"), strict=True):
        assert [(e.start, e.end, e.label) for e in one.entities] == [
            (e.start, e.end, e.label) for e in other.entities
        ]
    assert encoded == [len(LABELS)]
    extract(adapter, TEXTS[:1], [*LABELS, "stone"])
    assert encoded == [len(LABELS), 1]
    monkeypatch.setattr("sie_mcp.adapters.gliner.forward.MAX_KEPT_LABELS", 3)
    extract(adapter, TEXTS[:1], [f"stone{n}" for n in range(9)])
    assert len(adapter._forward._kept) == 3  # type: ignore[attr-defined]
