"""Low-rank adapters against PEFT: one at a time, and several of one base in one batch."""

import dataclasses

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.adapters.score_forms import FORMS
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import save, write_json
from tests.parity.rerankers import DOCUMENTS, QUERY, entry
from tests.parity.rerankers import save as save_decoder
from tests.parity.run import CPU, load
from tests.parity.table import ROWS
from tests.parity.test_causal_rerankers import ask, formula
from tests.parity.test_parity import reference_rows, request_for

# PEFT asks transformers for names that it is about to rename.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
TOLERANCE = 1e-5
TEXTS = ["morning coffee", "x", "alpha beta gamma delta " * 4, " ".join(f"w{n}" for n in range(64))]
BY_NAME = {row.name: row for row in ROWS}
LINEAR = {
    "bert": ["query", "key", "value", "output.dense"],
    "roberta": ["query", "value"],
    "distilbert": ["q_lin", "v_lin", "lin1"],
    "modernbert": ["Wqkv", "Wo", "Wi"],
    "mistral": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    "qwen3": ["k_proj", "v_proj", "up_proj"],
    "t5": ["q", "v", "wo"],
    "clip_text_model": ["q_proj", "v_proj", "out_proj", "fc1", "text_projection"],
    "siglip_text_model": ["k_proj", "fc2", "head"],
}
CASES = [
    (name, task)
    for name in LINEAR
    for task in ("dense", "cross_encoder", "classification", "token_classification")
    if ("cross_encoder" if task == "classification" else task) in BY_NAME[name].classes
]
HEADS = {
    "cross_encoder": "SEQ_CLS",
    "classification": "SEQ_CLS",
    "token_classification": "TOKEN_CLS",
}


def adapt(model, name, folder, task, seed, **changes):
    """Save an adapter with random weights; return the model that has it."""
    torch.manual_seed(seed)
    config = LoraConfig(
        **{"r": 4, "lora_alpha": 16, "target_modules": LINEAR[name], "lora_dropout": 0.1}
        | {"task_type": HEADS.get(task)}
        | changes
    )
    adapted = get_peft_model(model, config).eval()
    for key, parameter in adapted.named_parameters():
        if "lora_" in key or "modules_to_save" in key:
            parameter.data = torch.randn(parameter.shape) * 0.1
    adapted.save_pretrained(folder)
    return adapted


def run_rows(adapter, task, texts, loras):
    """Return what each text gives, every text with its own adapter, in one batch."""
    offered = [one for one in ("dense", "multivector") if one in adapter.card.outputs]
    prepared = adapter.prepare(request_for(task, texts, offered))
    sequences = [
        dataclasses.replace(one, lora=lora)
        for one, lora in zip(prepared.sequences, loras, strict=True)
    ]
    with torch.inference_mode():
        outputs = unpack(adapter.forward(pack(sequences, CPU)), len(sequences))
    rows = []
    for output in outputs:
        if task == "dense":
            rows.append(np.concatenate([output[one].ravel() for one in offered]))
        elif task == "token_classification":
            rows.append(output["scores"])
        else:
            rows.append(output["logits"][0])
    return rows


def attach(folder, base_folder):
    recipe = create.read_recipe("base", base_folder, None)
    return create.attach_lora(
        create.plan_lora(folder.name, folder, recipe), device=CPU, dtype=torch.float32
    )


@pytest.mark.parametrize(("name", "task"), CASES, ids=["-".join(case) for case in CASES])
def test_every_text_has_its_own_adapter(tmp_path, name, task):
    row = BY_NAME[name]
    base = tmp_path / "base"
    plain = save(row, task, base)
    expected = {None: reference_rows(row, task, plain, base, TEXTS)}
    loras = {None: None}
    for seed in (1, 2):
        folder = tmp_path / f"lora{seed}"
        fresh = save(row, task, tmp_path / "again")
        adapted = adapt(fresh, name, folder, task, seed, use_rslora=seed == 2)
        expected[seed] = reference_rows(row, task, adapted.base_model.model, base, TEXTS)
        loras[seed] = attach(folder, base)
    adapter = load(base)
    for key, lora in loras.items():
        found = run_rows(adapter, task, TEXTS, [lora] * len(TEXTS))
        assert _worst(found, expected[key]) <= TOLERANCE
    # Mixed, and not sorted by adapter.
    keys = [1, None, 2, 1]
    found = run_rows(adapter, task, TEXTS, [loras[key] for key in keys])
    wanted = [expected[key][place] for place, key in enumerate(keys)]
    assert _worst(found, wanted) <= TOLERANCE
    assert _worst(expected[1], expected[None]) > 1e-2
    after = run_rows(adapter, task, TEXTS, [None] * len(TEXTS))
    assert _worst(after, expected[None]) <= TOLERANCE


def _worst(found, expected):
    return max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))


def test_a_reranker_that_shares_its_beginning_has_adapters_too(tmp_path):
    base, folder = tmp_path / "base", tmp_path / "lora"
    base.mkdir()
    model = save_decoder("qwen3", base)
    torch.manual_seed(1)
    config = LoraConfig(r=2, lora_alpha=8, target_modules=LINEAR["qwen3"], task_type="CAUSAL_LM")
    adapted = get_peft_model(model, config).eval()
    for key, parameter in adapted.named_parameters():
        if "lora_" in key:
            parameter.data = torch.randn(parameter.shape) * 0.1
    adapted.save_pretrained(folder)
    expected = formula(adapted, base, FORMS["qwen3"], DOCUMENTS)
    recipe = create.read_recipe("base", base, entry(score_template="qwen3"))
    plan = create.plan_lora("lora", folder, recipe)
    lora = create.attach_lora(plan, device=CPU, dtype=torch.float32)
    adapter = load(base, entry(score_template="qwen3"))
    prepared = adapter.prepare(
        wire.ScoreRequest(
            query=wire.Item(text=QUERY), items=[wire.Item(text=one) for one in DOCUMENTS]
        )
    )
    assert prepared.sequences[0].prefix is not None
    sequences = [dataclasses.replace(one, lora=lora) for one in prepared.sequences]
    with torch.inference_mode():
        outputs = unpack(adapter.forward(pack(sequences, CPU)), len(sequences))
        both = [
            *sequences,
            *adapter.prepare(
                wire.ScoreRequest(
                    query=wire.Item(text="stone"), items=[wire.Item(text=one) for one in DOCUMENTS]
                )
            ).sequences,
        ]
        mixed = unpack(adapter.forward(pack(both, CPU)), len(both))
    found = [float(one["logits"][0, 0]) for one in outputs]
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)
    again = [float(one["logits"][0, 0]) for one in mixed[: len(DOCUMENTS)]]
    np.testing.assert_allclose(again, expected, atol=TOLERANCE, rtol=0)
    assert abs(np.array(ask(adapter)) - expected).max() > 1e-2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"use_dora": True}, "use_dora True is not served"),
        ({"peft_type": "IA3"}, "peft_type 'IA3' is not LORA"),
        ({"bias": "all"}, "bias 'all' is not served"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights 'pissa' changes the base"),
        ({"a_setting_of_tomorrow": 3}, "a_setting_of_tomorrow 3 is not served"),
        ({"lora_bias": True}, "lora_bias True is not served"),
    ],
)
def test_what_would_compute_otherwise_is_refused(tmp_path, changes, message):
    base, folder = tmp_path / "base", tmp_path / "lora"
    adapt(save(BY_NAME["bert"], "dense", base), "bert", folder, "dense", 1)
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 16} | changes
    write_json(folder / "adapter_config.json", config)
    with pytest.raises(ModelLoadFailed, match=message):
        attach(folder, base)


def test_another_bases_adapter_is_refused(tmp_path):
    base, folder = tmp_path / "base", tmp_path / "lora"
    save(BY_NAME["bert"], "dense", base)
    adapt(save(BY_NAME["qwen3"], "dense", tmp_path / "q"), "qwen3", folder, "dense", 1)
    with pytest.raises(ModelLoadFailed, match="is unknown to architecture 'bert'"):
        attach(folder, base)
    wide = {"config": {**BY_NAME["bert"].config, "hidden_size": 64}}
    other = dataclasses.replace(BY_NAME["bert"], **wide)
    adapt(save(other, "dense", tmp_path / "w"), "bert", folder, "dense", 1)
    with pytest.raises(ModelLoadFailed, match="does not fit base's layer"):
        attach(folder, base)
    deberta = tmp_path / "deberta"
    save(BY_NAME["deberta-v2"], "dense", deberta)
    with pytest.raises(ModelLoadFailed, match="adapters on model_type 'deberta-v2'"):
        attach(folder, deberta)
    with pytest.raises(ModelLoadFailed, match=r"base has no adapter_config\.json"):
        attach(base, base)


def test_patterns_of_alpha_and_tensors_of_other_kinds(tmp_path):
    base, folder = tmp_path / "base", tmp_path / "lora"
    row = BY_NAME["bert"]
    model = save(row, "dense", base)
    adapted = adapt(
        model, "bert", folder, "dense", 3, alpha_pattern={"value": 40}, rank_pattern={"key": 2}
    )
    expected = reference_rows(row, "dense", adapted.base_model.model, base, TEXTS)
    found = run_rows(load(base), "dense", TEXTS, [attach(folder, base)] * len(TEXTS))
    assert _worst(found, expected) <= TOLERANCE
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    save_file(tensors | {"base_model.model.x.lora_embedding_A": torch.zeros(1)}, path)
    with pytest.raises(ModelLoadFailed, match="of a kind that is not served"):
        attach(folder, base)
