"""Tasks on tiny models: lengths, dtypes, late interaction, entities over windows, threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from sie_mcp import wire
from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.flat import FlatWeights
from sie_mcp.adapters.layers.attention import attention
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.lora_hooks import LoraHooks
from sie_mcp.adapters.packing import pack
from sie_mcp.adapters.pair_frame import longest_first
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.token_classification import TokenClassificationAdapter
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InputTooLong, InvalidInput
from tests.parity.checkpoints import make_tokenizer, save, write_json
from tests.parity.run import CPU, load, run
from tests.parity.table import ROWS

BERT = ROWS[0]


def encode(adapter, texts, output_dtype="float32", outputs=("dense",), **options):
    request = wire.EncodeRequest.model_validate(
        {
            "items": [{"text": text} for text in texts],
            "params": {
                "output_types": list(outputs),
                "output_dtype": output_dtype,
                "options": options,
            },
        }
    )
    return run(adapter, request)[0].items


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dense")
    save(BERT, "dense", folder)
    return load(folder)


def test_truncation_is_reported_and_can_be_refused(dense):
    long = " ".join(["alpha"] * 300)
    item, short = encode(dense, [long, "alpha"])
    assert (item.truncated, item.num_tokens) == (True, 160)
    assert (short.truncated, short.num_tokens) == (False, 3)
    with pytest.raises(InputTooLong, match=r"items\[0\] has 302 tokens, over the limit of 160"):
        encode(dense, [long], truncate=False)
    assert encode(dense, [long], max_length=10)[0].num_tokens == 10
    with pytest.raises(InvalidInput, match="max_length 161 is over this model's limit of 160"):
        encode(dense, [long], max_length=161)


def test_dimensions_are_cut_and_more_than_there_are_refused(dense):
    full = encode(dense, ["alpha"])[0].dense.values
    cut = encode(dense, ["alpha"], dimensions=8, normalize=True)[0].dense
    assert cut.dims == 8
    assert np.allclose(cut.values, full[:8] / np.linalg.norm(full[:8]), atol=1e-6)
    with pytest.raises(InvalidInput, match="dimensions 33 is over"):
        encode(dense, ["alpha"], dimensions=33)


def test_binary_vectors_are_bits_most_significant_first(dense):
    full = encode(dense, ["alpha"])[0].dense.values
    bits = np.packbits(full > 0)
    ubinary = encode(dense, ["alpha"], "ubinary")[0].dense.values
    binary = encode(dense, ["alpha"], "binary")[0].dense.values
    assert np.array_equal(ubinary, bits)
    assert binary.dtype == np.int8
    assert np.array_equal(binary.astype(int), bits.astype(int) - 128)


def test_an_output_that_the_model_lacks_is_refused_with_those_it_has(dense):
    with pytest.raises(InvalidInput, match="no sparse output; it has: dense, multivector"):
        encode(dense, ["alpha"], outputs=("sparse",))


def test_maxsim_scores_an_encoder_without_a_scoring_head(dense):
    texts = ["alpha beta", "stone river coffee", "alpha"]
    request = wire.ScoreRequest(
        query=wire.Item(text="beta alpha"), items=[wire.Item(text=text) for text in texts]
    )
    response, _ = run(dense, request)
    query, *items = encode(dense, ["beta alpha", *texts], outputs=("multivector",))
    expected = [
        (query.multivector.values @ one.multivector.values.T).max(axis=1).sum() for one in items
    ]
    found = {one.index: one.score for one in response.scores}
    assert response.score_type == "similarity"
    assert [one.rank for one in response.scores] == [0, 1, 2]
    assert np.allclose([found[index] for index in range(3)], expected, atol=1e-5)


def test_a_pylate_checkpoint_marks_expands_and_skips(tmp_path):
    """Markers are one token, queries are filled with masks that nobody attends to, and documents
    leave out punctuation: against the formula on the reference model."""
    reference = save(BERT, "dense", tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.add_special_tokens(["[Q] ", "[D] "])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    settings = {
        "model_type": "ColBERT",
        "query_length": 8,
        "document_length": 20,
        "skiplist_words": ["stone"],
        "attend_to_expansion_tokens": False,
    }
    write_json(tmp_path / "config_sentence_transformers.json", settings)
    write_json(tmp_path / "modules.json", [{"idx": 0, "path": "", "type": "pylate.Transformer"}])
    grown = torch.nn.Embedding(BERT.config["vocab_size"], 32)
    assert tokenizer.token_to_id("[Q] ") >= grown.num_embeddings
    reference.resize_token_embeddings(tokenizer.get_vocab_size())
    reference.save_pretrained(tmp_path)
    adapter = load(tmp_path)
    (query,) = encode(adapter, ["alpha"], outputs=("multivector",), is_query=True)
    ids = torch.tensor([[1, tokenizer.token_to_id("[Q] "), 5, 2, 4, 4, 4, 4]])
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0, 0]])
    with torch.no_grad():
        hidden = reference(input_ids=ids, attention_mask=mask).last_hidden_state[0]
    expected = torch.nn.functional.normalize(hidden, dim=-1).numpy()
    assert query.multivector.values.shape == (8, 32)
    assert np.abs(query.multivector.values - expected).max() <= 1e-5
    (document,) = encode(adapter, ["alpha stone beta"], outputs=("multivector",))
    assert document.multivector.num_tokens == document.num_tokens - 1


def test_longest_first_cuts_the_longer_text():
    assert longest_first(3, 4, None) == (None, None)
    assert longest_first(3, 4, 7) == (None, None)
    assert longest_first(3, 20, 10) == (3, 7)
    assert longest_first(20, 3, 10) == (7, 3)
    assert longest_first(20, 30, 11) == (5, 6)
    assert longest_first(30, 20, 11) == (6, 5)


def test_many_threads_tokenise_as_one_does():
    """Case T39: 10,000 requests of mixed lengths, limits and pairs on one shared tokenizer."""
    tokenizer = TextTokenizer(make_tokenizer("bert"))

    def work(number: int) -> list[list[int]]:
        limit = [None, 5, 9, 30][number % 4]
        texts = [f"w{number % 90} alpha " * (number % 13 + 1)]
        single = tokenizer.encode(texts, limit)
        pairs = tokenizer.encode_pairs(f"w{number % 70} beta", texts, limit)
        return [one.ids.tolist() for one in (*single, *pairs)]

    kinds = 1_000
    alone = [work(number) for number in range(kinds)]
    with ThreadPoolExecutor(64) as pool:
        found = list(pool.map(work, [number % kinds for number in range(10_000)]))
    assert all(found[number] == alone[number % kinds] for number in range(10_000))


class NameFinder(torch.nn.Module):
    """A toy encoder that tags words "w1" and "w2" as a name; w2 only right after w1."""

    def forward(self, batch):
        ids = batch.input_ids
        vocabulary = make_tokenizer("bert").get_vocab()
        first, second = vocabulary["w1"], vocabulary["w2"]
        tags = torch.zeros(len(ids), 3)
        tags[:, 0] = 1.0
        tags[ids == first] = torch.tensor([0.0, 5.0, 0.0])
        after = torch.zeros_like(ids, dtype=torch.bool)
        after[1:] = ids[:-1] == first
        tags[(ids == second) & after] = torch.tensor([0.0, 0.0, 5.0])
        return tags


@pytest.fixture
def name_finder(tmp_path):
    recipe = Recipe(
        name="names",
        folder=tmp_path,
        architecture="bert",
        config={},
        tasks=("token_classification",),
        max_length=386,
        labels=("O", "B-NAME", "I-NAME"),
    )
    model = torch.nn.Module()
    model.encoder = model.states = NameFinder()
    model.loras = LoraHooks(model)
    model.heads = torch.nn.ModuleDict({"token_classification": torch.nn.Identity()})
    model.loras = LoraHooks(model)
    card = wire.ModelCard(name="names", primitives=["extract"], outputs=["entities"])
    tokenizer = TextTokenizer(make_tokenizer("bert"))
    weights = FlatWeights([], torch.empty(0, dtype=torch.uint8))
    return TokenClassificationAdapter(Loaded(recipe, model, tokenizer, card, weights))


def extract(adapter, text, **params):
    request = wire.ExtractRequest.model_validate({"items": [{"text": text}], "params": params})
    return run(adapter, request)[0].items[0]


def test_a_long_text_is_read_in_windows_and_each_name_found_once(name_finder):
    """Case T56: names at the edges of windows, one across an edge."""
    words = ["coffee"] * 1500
    places = [0, 383, 385, 1000, 1499]
    for place in places:
        words[place] = "w1"
    words[600:602] = ["w1", "w2"]
    words[768:770] = ["w1", "w2"]
    text = " ".join(words)
    item = extract(name_finder, text)
    found = [entity.text for entity in item.entities]
    assert sorted(found) == ["w1"] * len(places) + ["w1 w2"] * 2
    assert all(text[one.start : one.end] == one.text for one in item.entities)
    assert not item.truncated
    assert item.read_to is None
    cut = extract(name_finder, text, options={"windowing": False})
    assert cut.truncated
    assert cut.read_to == len(" ".join(words[:384]))
    assert len(cut.entities) == 2


def test_labels_are_filtered_and_unknown_ones_refused(name_finder):
    assert extract(name_finder, "w1 coffee", labels=["name"]).entities[0].label == "NAME"
    with pytest.raises(InvalidInput, match=r"does not know \['ORG'\]; it finds: NAME"):
        extract(name_finder, "w1", labels=["ORG"])
    assert extract(name_finder, "w1", options={"threshold": 0.999}).entities == []


@pytest.mark.parametrize("prefix", ["é̂ 🙂🙂 ", "ＡＢＣ ", "İstanbul ", "\u200b\t"])
def test_offsets_are_code_points_of_the_caller_s_own_string(name_finder, prefix):
    text = f"{prefix}w1 w2, coffee"
    (entity,) = extract(name_finder, text).entities
    assert text[entity.start : entity.end] == entity.text == "w1 w2"


def test_causal_and_windowed_attention_follow_the_formula():
    """Cases T05 and T06 on the attention seam itself, with a control that can fail."""
    torch.manual_seed(0)
    lengths = (200, 10, 37)
    batch = pack([Sequence(np.zeros(n, np.int64)) for n in lengths], CPU)
    q = torch.randn(sum(lengths), 4, 16)
    k, v = torch.randn(sum(lengths), 2, 16), torch.randn(sum(lengths), 2, 16)

    def eager(causal, window):
        parts = []
        for start, end in zip(batch.offsets[:-1], batch.offsets[1:], strict=True):
            keys = k[start:end].repeat_interleave(2, dim=1)
            values = v[start:end].repeat_interleave(2, dim=1)
            scores = torch.einsum("ihd,jhd->hij", q[start:end], keys) / 4
            distance = torch.arange(end - start)[None, :] - torch.arange(end - start)[:, None]
            hidden = torch.zeros_like(distance, dtype=torch.bool)
            if causal:
                hidden |= distance > 0
            if window is not None:
                hidden |= (distance < -window[0]) | (distance > window[1])
            weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
            parts.append(torch.einsum("hij,jhd->ihd", weights, values))
        return torch.cat(parts)

    for causal in (False, True):
        for window in (None, (8, 8)):
            found = attention(q, k, v, batch, causal=causal, window=window)
            assert (found - eager(causal, window)).abs().max() <= 1e-5
            other = eager(not causal, window)
            assert (found - other).abs().max() > 1e-2
