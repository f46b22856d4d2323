"""Language models that rerank: against the formula, against sentence-transformers, prefixes shared.

Tiny random decoders with a word-level tokenizer, float32, CPU.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from transformers import PreTrainedTokenizerFast

from sie_mcp import wire
from sie_mcp.adapters.packing import pack, share_prefix, unpack
from sie_mcp.adapters.score_forms import FORMS
from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed
from tests.parity.checkpoints import write_json
from tests.parity.rerankers import DOCUMENTS, FAMILIES, QUERY, entry, save
from tests.parity.run import CPU, load, run

TOLERANCE = 1e-5


def ask(adapter, documents=DOCUMENTS, **fields):
    request = wire.ScoreRequest.model_validate(
        {
            "query": {"text": QUERY},
            "items": [{"text": text} for text in documents],
            "options": {"raw_scores": True},
            **fields,
        }
    )
    response, _ = run(adapter, request)
    return [one.score for one in sorted(response.scores, key=lambda one: one.index)]


@torch.no_grad()
def formula(model, folder, form, documents, instruction=""):
    """Return the lead of the true word's logit at the end of each question, one at a time."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))

    def ids(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    scores = []
    for document in documents:
        values = {"query": QUERY, "instruction": instruction or form.instruction}
        parts = [one for one in form.before if "{instruction}" not in one or values["instruction"]]
        text = form.document.format(**values, document=document)
        pieces = [*(part.format(**values) for part in parts), text, *form.after]
        row = [one for piece in pieces for one in ids(piece)]
        logits = model(torch.tensor([row])).logits[0, -1]
        lead = logits[ids(form.true_word)[0]]
        if form.false_word is not None:
            lead = lead - logits[ids(form.false_word)[0]]
        scores.append(float(lead) / form.divisor)
    return scores


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_the_leads_of_a_word(tmp_path, family, name):
    model = save(family, tmp_path)
    adapter = load(tmp_path, entry(score_template=name))
    expected = formula(model, tmp_path, FORMS[name], DOCUMENTS)
    np.testing.assert_allclose(ask(adapter), expected, atol=TOLERANCE, rtol=0)
    assert max(expected) - min(expected) > 1e-3
    told = formula(model, tmp_path, FORMS[name], DOCUMENTS, "beta")
    found = ask(adapter, instruction="beta")
    np.testing.assert_allclose(found, told, atol=TOLERANCE, rtol=0)
    assert "asked as" in adapter.card.decisions["score"]


def test_a_score_is_a_probability_unless_raw(tmp_path):
    save("qwen3", tmp_path)
    adapter = load(tmp_path, entry(score_template="qwen3"))
    request = wire.ScoreRequest(
        query=wire.Item(text=QUERY), items=[wire.Item(text=one) for one in DOCUMENTS]
    )
    response, _ = run(adapter, request)
    raw = ask(adapter)
    assert response.score_type == "probability"
    for one in response.scores:
        assert one.score == pytest.approx(1 / (1 + np.exp(-raw[one.index])), abs=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_all_begin_with_is_computed_once(tmp_path, family):
    save(family, tmp_path)
    adapter = load(tmp_path, entry(score_template="qwen3"))
    request = wire.ScoreRequest(
        query=wire.Item(text=QUERY), items=[wire.Item(text=one) for one in DOCUMENTS]
    )
    prepared = adapter.prepare(request)
    (prefix,) = {one.prefix for one in prepared.sequences}
    assert len(prefix.input_ids) > 30
    batch = pack(prepared.sequences, CPU)
    saved = (len(DOCUMENTS) - 1) * len(prefix.input_ids)
    assert batch.num_tokens == sum(one.num_tokens for one in prepared.sequences) - saved
    whole = [
        dataclasses.replace(
            one, input_ids=np.concatenate([prefix.input_ids, one.input_ids]), prefix=None
        )
        for one in prepared.sequences
    ]
    with torch.inference_mode():
        shared = unpack(adapter.forward(batch), len(whole))
        apart = unpack(adapter.forward(pack(whole, CPU)), len(whole))
        # Two requests in one batch, each with its own beginning, and one sequence without.
        other = adapter.prepare(
            request.model_copy(update={"query": wire.Item(text="stone beta gamma")})
        )
        mixed = [other.sequences[2], *prepared.sequences, whole[1], other.sequences[0]]
        both = unpack(adapter.forward(pack(mixed, CPU)), len(mixed))
    for index in range(len(whole)):
        assert abs(shared[index]["logits"] - apart[index]["logits"]).max() <= TOLERANCE
        assert abs(both[index + 1]["logits"] - apart[index]["logits"]).max() <= TOLERANCE
    assert abs(both[-2]["logits"] - apart[1]["logits"]).max() <= TOLERANCE


def test_short_beginnings_are_not_shared():
    rows = [np.arange(20), np.concatenate([np.arange(10), np.arange(5)])]
    assert {one.prefix for one in share_prefix(rows, frozenset())} == {None}
    same = share_prefix([np.arange(20), np.arange(20)], frozenset())
    assert [len(one.input_ids) for one in same] == [1, 1]


def test_only_the_document_is_cut(tmp_path):
    model = save("qwen3", tmp_path)
    adapter = load(tmp_path, entry(score_template="zerank"))
    long = " ".join(f"w{number % 30}" for number in range(300))
    options = {"raw_scores": True, "max_length": 60}
    request = wire.ScoreRequest.model_validate(
        {"query": {"text": QUERY}, "items": [{"text": long}], "options": options}
    )
    response, _ = run(adapter, request)
    assert response.scores[0].truncated
    assert response.scores[0].num_tokens == 60
    form = FORMS["zerank"]
    words = long.split()
    for count in range(20, 60):
        text = " ".join(words[:count])
        cut = wire.ScoreRequest.model_validate(
            {"query": {"text": QUERY}, "items": [{"text": text}]}
        )
        if adapter.prepare(cut).sequences[0].num_tokens == 60:
            (expected,) = formula(model, tmp_path, form, [text])
            assert response.scores[0].score == pytest.approx(expected, abs=TOLERANCE)
            break
    else:
        pytest.fail("no beginning of the document fills the limit")
    with pytest.raises(InputTooLong, match=r"items\[0\] with the query"):
        adapter.prepare(
            request.model_copy(
                update={"options": request.options.model_copy(update={"truncate": False})}
            )
        )
    with pytest.raises(InputTooLong, match="leave no room for a document"):
        adapter.prepare(
            request.model_copy(
                update={"options": request.options.model_copy(update={"max_length": 12})}
            )
        )


CHAT = (
    "{% for m in messages %}"
    "{% if m.role == 'system' %}w9 {{ m.content }} w10 {% endif %}"
    "{% if m.role == 'query' %}w11 {{ m.content }} w12 {% endif %}"
    "{% if m.role == 'document' %}w13 {{ m.content }} w14 w15{% endif %}"
    "{% endfor %}"
)


def save_as_the_library_does(folder: Path, plain: Path, **options) -> CrossEncoder:
    save("qwen3", plain)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(plain / "tokenizer.json"),
        pad_token="[PAD]",
        bos_token="<s>",
        eos_token="</s>",
        padding_side="left",
        model_max_length=40,
    )
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(plain)
    transformer = Transformer(str(plain), transformer_task="text-generation", **options)
    score = LogitScore(true_token_id=50, false_token_id=51)
    CrossEncoder(modules=[transformer, score]).save_pretrained(str(folder))
    return CrossEncoder(str(folder), device="cpu", local_files_only=True)


def test_the_librarys_own_files_give_its_scores(tmp_path):
    folder = tmp_path / "ce"
    reference = save_as_the_library_does(folder, tmp_path / "plain")
    adapter = load(folder)
    documents = [*DOCUMENTS[:3], "stone " * 60]
    pairs = [(QUERY, document) for document in documents]
    expected = reference.predict(pairs, activation_fn=torch.nn.Identity())
    assert "message" in reference[0].modality_config
    np.testing.assert_allclose(ask(adapter, documents), expected, atol=TOLERANCE, rtol=0)
    told = reference.predict(pairs, activation_fn=torch.nn.Identity(), prompt="gamma delta")
    found = ask(adapter, documents, instruction="gamma delta")
    np.testing.assert_allclose(found, told, atol=TOLERANCE, rtol=0)


def test_an_unknown_form_is_refused_with_those_there_are(tmp_path):
    save("qwen3", tmp_path)
    with pytest.raises(ModelLoadFailed, match="no score_template 'nope'; there are: qwen3, mxbai"):
        load(tmp_path, entry(score_template="nope"))


def test_a_missing_template_is_named(tmp_path):
    folder = tmp_path / "ce"
    save_as_the_library_does(folder, tmp_path / "plain")
    (folder / "chat_template.jinja").unlink()
    write_json(folder / "tokenizer_config.json", {})
    with pytest.raises(ModelLoadFailed, match=r"chat_template\.jinja is missing"):
        load(folder)


@pytest.mark.parametrize("options", [{"weights": {"dense": 1.0}}, {"score_mode": "mean"}])
def test_options_of_models_that_compare_vectors_are_refused(tmp_path, options):
    save("qwen3", tmp_path)
    adapter = load(tmp_path, entry(score_template="qwen3"))
    with pytest.raises(InvalidInput, match=f"{next(iter(options))} is for models that compare"):
        ask(adapter, options=options)
