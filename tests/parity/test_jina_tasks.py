"""Jina v3's own adapters, one a task: against the same model with each in its weights."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.adapters.widened import widened
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import rewrite, save
from tests.parity.jina_tasks import INSTRUCTIONS, NAMES, OWN, save_tasks
from tests.parity.row import Dialect
from tests.parity.run import CPU, load, run
from tests.parity.test_parity import TEXTS, TOLERANCE, reference_rows, request_for, rows_of, worst


@pytest.fixture(scope="module", params=[1, 2], ids=["one type", "two types"])
def tasks(request, tmp_path_factory):
    """A checkpoint, it loaded, and what the reference gives each text for each task."""
    folder = tmp_path_factory.mktemp("jina") / "base"
    references = save_tasks(folder, num_types=request.param)
    expected = {
        name: reference_rows(
            OWN, "dense", model, folder, [INSTRUCTIONS.get(name, "") + text for text in TEXTS]
        )
        for name, model in references.items()
    }
    return folder, load(folder), expected


def encode(adapter, texts=TEXTS, instruction=None, **options):
    """Return one flat array a text, dense and token vectors, as the reference's rows are."""
    request = request_for("dense", texts)
    params = request.params.model_copy(
        update={"options": wire.EncodeOptions(**options), "instruction": instruction}
    )
    response, _ = run(adapter, request.model_copy(update={"params": params}))
    return [
        np.concatenate([item.dense.values, item.multivector.values.ravel()])
        for item in response.items
    ]


@pytest.mark.parametrize("name", ["", *NAMES])
def test_a_task_equals_the_reference_with_it_in_its_weights(tasks, name):
    _, adapter, expected = tasks
    assert worst(encode(adapter, lora=name), expected[name]) <= TOLERANCE
    if name:
        plain = [one[:32] for one in expected[""]]
        assert worst([one[:32] for one in expected[name]], plain) > 1e-2


@pytest.mark.parametrize(
    ("is_query", "name"), [(True, "retrieval.query"), (False, "retrieval.passage"), (None, "")]
)
def test_an_items_role_chooses_where_the_caller_does_not(tasks, is_query, name):
    _, adapter, expected = tasks
    assert worst(encode(adapter, is_query=is_query), expected[name]) <= TOLERANCE
    for other in ("", "separation"):
        chosen = encode(adapter, is_query=is_query, lora=other)
        assert worst(chosen, expected[other]) <= TOLERANCE


def test_tasks_share_a_batch(tasks):
    _, adapter, expected = tasks
    names = ["text-matching", "", "retrieval.query", "retrieval.passage", "text-matching"]
    sequences = []
    for text, name in zip(TEXTS, names, strict=True):
        request = request_for("dense", [text])
        options = wire.EncodeOptions(lora=name)
        params = request.params.model_copy(update={"options": options})
        sequences += adapter.prepare(request.model_copy(update={"params": params})).sequences
    with torch.inference_mode():
        outputs = unpack(adapter.forward(pack(sequences, CPU)), len(sequences))
    for place, (output, name) in enumerate(zip(outputs, names, strict=True)):
        found = np.concatenate([output["dense"][0], output["multivector"].ravel()])
        assert worst([found], [expected[name][place]]) <= TOLERANCE


def test_a_score_reads_both_sides_each_with_its_own(tasks):
    _, adapter, expected = tasks
    items = [wire.Item(text=text) for text in TEXTS[1:]]
    for lora, sides in (
        (None, ("retrieval.query", "retrieval.passage")),
        ("separation", ("separation",) * 2),
        ("", ("", "")),
    ):
        options = wire.ScoreOptions(lora=lora, weights={"dense": 1.0})
        request = wire.ScoreRequest(query=wire.Item(text=TEXTS[0]), items=items, options=options)
        found = {one.index: one.score for one in run(adapter, request)[0].scores}
        query, *others = (
            expected[side][place][:32] for place, side in enumerate((sides[0], *[sides[1]] * 4))
        )
        for index, other in enumerate(others):
            cosine = query @ other / np.linalg.norm(query) / np.linalg.norm(other)
            assert abs(found[index] - cosine) <= TOLERANCE


def test_a_callers_text_takes_the_place_of_the_tasks(tasks):
    _, adapter, _ = tasks
    given = [f"morning {text}" for text in TEXTS[:2]]
    bare = encode(adapter, given, lora="retrieval.query", prompt="")
    for own in ({"prompt": "morning "}, {"instruction": "morning"}):
        texts = TEXTS[:2] if "prompt" in own else [f" {text}" for text in TEXTS[:2]]
        assert worst(encode(adapter, texts, lora="retrieval.query", **own), bare) <= TOLERANCE


def test_the_card_names_them_and_their_bytes_are_the_models(tasks):
    folder, adapter, _ = tasks
    assert adapter.card.loras == NAMES
    recipe = create.read_recipe("jina", folder, None)
    tensors = load_file(folder / "model.safetensors")
    numbers = sum(one.numel() for name, one in tensors.items() if "pooler" not in name)
    planned = create.weight_bytes(recipe, torch.float32)
    assert planned == adapter.weights.size_bytes
    assert 0 <= planned - 4 * numbers < 256 * len(NAMES) * len(tensors)


def test_an_adapter_of_another_is_not_the_roles_business(tasks):
    _, adapter, expected = tasks
    found = encode(adapter, is_query=True, lora="org/other")
    # The engine puts it there; till then the text is as without one.
    assert worst(found, expected[""]) <= TOLERANCE


def test_a_classifier_of_the_family_has_no_task_to_choose(tmp_path):
    save(OWN, "classification", tmp_path)
    before = rows_of(load(tmp_path), "classification", TEXTS)
    rewrite(tmp_path, Dialect(config={"lora_adaptations": ["separation"]}))
    adapter = load(tmp_path)
    assert adapter.card.loras == []
    assert adapter.card.decisions["loras"].startswith("not applied: separation")
    assert worst(rows_of(adapter, "classification", TEXTS), before) == 0.0


LAYER = "roberta.encoder.layers.0.mixer.Wqkv.parametrizations.weight.0.lora_"
REFUSALS = [
    ({"lora_adaptations": "separation"}, {}, "'separation' must be a list of different names"),
    ({"lora_adaptations": ["a", "a"]}, {}, "must be a list of different names"),
    ({"lora_adaptations": [1]}, {}, "must be a list of different names"),
    ({"task_instructions": None}, {}, "task_instructions must give each of lora_adaptations"),
    ({"task_instructions": {"separation": ""}}, {}, "task_instructions must give each"),
    ({"task_instructions": dict.fromkeys(NAMES)}, {}, "task_instructions must give each"),
    ({"lora_rank": 0}, {}, "lora_rank 0 must be a number over 0"),
    ({"lora_alpha": "1"}, {}, "lora_alpha '1' must be a number over 0"),
    ({"lora_rank": 8}, {}, r"ask for {'A': \[5, 1, 8\], 'B': \[5, 8, 32\]}"),
    ({}, {f"{LAYER}A": torch.ones(4, 4, 32)}, r"lora_A: shapes {'A': \[4, 4, 32\]"),
    ({}, {f"{LAYER}B": None}, r"shapes {'A': \[5, 4, 32\]}, but config.json and the layer ask"),
    (
        {},
        {"emb_ln.parametrizations.weight.0.lora_A": torch.ones(5, 4, 1)},
        "the layer ask for none",
    ),
    ({}, {f"{LAYER}C": torch.ones(1)}, "is unknown to architecture 'jina_embeddings_v3'"),
    ({"lora_adaptations": None}, {}, r"lora_A, but config\.json names no lora_adaptations"),
    ({}, None, "holds none of config.json's lora_adaptations; without that key"),
]


@pytest.mark.parametrize(("config", "tensors", "message"), REFUSALS)
def test_adapters_that_do_not_fit_are_refused(tmp_path, config, tensors, message):
    folder = tmp_path / "base"
    save_tasks(folder)
    weights = folder / "model.safetensors"
    stored = load_file(weights)
    if tensors is None:
        stored = {name: one for name, one in stored.items() if "lora_" not in name}
    stored |= tensors or {}
    save_file({name: one for name, one in stored.items() if one is not None}, weights)
    rewrite(folder, Dialect(config=config))
    with pytest.raises(ModelLoadFailed, match=message):
        load(folder)


def test_the_check_at_the_end_of_a_load_runs_each(tmp_path):
    folder = tmp_path / "base"
    save_tasks(folder)
    weights = folder / "model.safetensors"
    stored = load_file(weights)
    stored[f"{LAYER}A"][3] = torch.inf
    save_file(stored, weights)
    with pytest.raises(ModelLoadFailed, match="not finite"):
        load(folder)


def test_half_precision_has_a_second_try_in_float32(tasks):
    folder, _, expected = tasks
    recipe = create.read_recipe("jina", folder, None)
    adapter = create.load_adapter(recipe, device=CPU, dtype=torch.float16)
    with widened():
        wide = encode(adapter, lora="text-matching")
    half = encode(adapter, lora="text-matching")
    assert worst(wide, expected["text-matching"]) < worst(half, expected["text-matching"]) < 0.2
