"""What sets BERT's relatives apart, where the table of parity cannot reach."""

import json

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

from sie_mcp.adapters.layers.relative_bias import RelativeBias
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import make_tokenizer, save, write_modules
from tests.parity.run import load, run
from tests.parity.table import ROWS
from tests.parity.test_parity import TOLERANCE, request_for

BY_NAME = {row.name: row for row in ROWS}


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def dense(adapter, texts):
    response, _ = run(adapter, request_for("dense", texts))
    return [item.dense.values for item in response.items]


@pytest.mark.parametrize("name", ["roberta", "xlm-roberta", "camembert", "mpnet"])
def test_a_padding_token_inside_a_text_counts_for_no_position(name, tmp_path):
    reference = save(BY_NAME[name], "dense", tmp_path)
    texts = ["alpha beta", "alpha [PAD] beta [PAD] [PAD] gamma", "[PAD] river"]
    found = dense(load(tmp_path), texts)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text, vector in zip(texts, found, strict=True):
        ids = torch.tensor([tokenizer.encode(text).ids])
        with torch.no_grad():
            states = reference(input_ids=ids, attention_mask=torch.ones_like(ids))
        expected = states.last_hidden_state[0].mean(0).numpy()
        assert np.abs(vector - expected).max() <= TOLERANCE


@pytest.mark.parametrize(("name", "limit"), [("bert", 160), ("roberta", 158), ("mpnet", 158)])
def test_positions_past_the_padding_token_leave_room_for_fewer_tokens(name, limit, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    assert load(tmp_path).card.max_sequence_length == limit


def test_mpnet_keeps_its_positions_whatever_the_padding_token(tmp_path):
    save(BY_NAME["mpnet"], "dense", tmp_path)
    before = dense(load(tmp_path), ["alpha river"])
    change_config(tmp_path, pad_token_id=0)
    assert np.array_equal(dense(load(tmp_path), ["alpha river"]), before)


def test_a_config_without_padding_token_means_one(tmp_path):
    save(BY_NAME["roberta"], "dense", tmp_path)
    before = dense(load(tmp_path), ["alpha river"])
    config = json.loads((tmp_path / "config.json").read_text())
    del config["pad_token_id"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert np.array_equal(dense(load(tmp_path), ["alpha river"]), before)


@pytest.mark.parametrize("value", [None, -1, "<pad>"])
def test_a_padding_token_that_is_no_id_is_refused(value, tmp_path):
    save(BY_NAME["roberta"], "dense", tmp_path)
    change_config(tmp_path, pad_token_id=value)
    with pytest.raises(ModelLoadFailed, match="pad_token_id"):
        load(tmp_path)


def test_another_number_of_distance_buckets_is_refused(tmp_path):
    save(BY_NAME["mpnet"], "dense", tmp_path)
    change_config(tmp_path, relative_attention_num_buckets=64)
    with pytest.raises(ModelLoadFailed, match="relative_attention_num_buckets 64"):
        load(tmp_path)


def test_a_discriminator_is_an_encoder_whose_own_head_stays_unused(tmp_path):
    torch.manual_seed(0)
    config = transformers.ElectraConfig(**BY_NAME["electra"].config)
    reference = transformers.ElectraForPreTraining(config).eval()
    reference.save_pretrained(tmp_path)
    tokenizer = make_tokenizer("bert")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    write_modules(tmp_path, config.hidden_size, "mean")
    ids = torch.tensor([tokenizer.encode("alpha river").ids])
    with torch.no_grad():
        expected = reference.electra(input_ids=ids).last_hidden_state[0].mean(0).numpy()
    assert np.abs(dense(load(tmp_path), ["alpha river"])[0] - expected).max() <= TOLERANCE


def test_every_distance_has_the_bucket_of_the_reference():
    bias = RelativeBias(num_heads=1)
    bias.table.weight.data = torch.arange(32.0)[:, None]
    places = torch.arange(1024)
    distance = places[None, :] - places[:, None]
    expected = MPNetEncoder.relative_position_bucket(distance)
    assert torch.equal(bias(1024)[0].long(), expected)
