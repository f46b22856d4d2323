"""Case T49: nothing that a checkpoint brings is run, unless a setting names the model."""

import json
import pickle

import numpy as np
import pytest
import torch
import transformers.dynamic_module_utils
from safetensors.torch import save_file

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import make_tokenizer, save, write_json
from tests.parity.run import CPU, load, run
from tests.parity.table import ROWS
from tests.tiny import change_json

BERT = ROWS[0]
ALBERT = next(row for row in ROWS if row.name == "albert")
CODE = {
    "configuration_toy.py": """
from pathlib import Path
from transformers import PreTrainedConfig

(Path({marker!r}) / "ran").touch()


class ToyConfig(PreTrainedConfig):
    model_type = "toy-with-code"
    hidden_size: int = 8
    vocab_size: int = 200
""",
    "modeling_toy.py": """
import torch
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from .configuration_toy import ToyConfig


class ToyModel(PreTrainedModel):
    config_class = ToyConfig

    def __init__(self, config):
        super().__init__(config)
        self.words = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids, attention_mask=None):
        return BaseModelOutput(last_hidden_state=self.words(input_ids) * 2)
""",
}
AUTO_MAP = {"AutoConfig": "configuration_toy.ToyConfig", "AutoModel": "modeling_toy.ToyModel"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A checkpoint whose code leaves a file behind when it is imported."""
    monkeypatch.setattr(
        transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    folder = tmp_path / "toy"
    folder.mkdir()
    config = {"model_type": "toy-with-code", "architectures": ["ToyModel"], "auto_map": AUTO_MAP}
    write_json(folder / "config.json", config)
    for name, text in CODE.items():
        (folder / name).write_text(text.format(marker=str(tmp_path)))
    save_file({"words.weight": torch.randn(200, 8)}, folder / "model.safetensors")
    make_tokenizer("bert").save(str(folder / "tokenizer.json"))
    return folder


def read_and_load(folder, *, may_run_code=False):
    recipe = create.read_recipe("org/toy", folder, None, may_run_code=may_run_code)
    return create.load_adapter(recipe, device=CPU, dtype=torch.float32)


def test_a_checkpoint_s_own_code_is_not_run(folder, tmp_path):
    with pytest.raises(ModelLoadFailed, match="put 'org/toy' into SIE_MCP_ALLOW_REMOTE_CODE"):
        read_and_load(folder)
    assert not (tmp_path / "ran").exists()


def test_code_of_a_model_that_is_allowed_runs(folder, tmp_path):
    adapter = read_and_load(folder, may_run_code=True)
    assert (tmp_path / "ran").exists()
    assert adapter.card.packed is False
    request = wire.EncodeRequest(items=[wire.Item(text="alpha")])
    (item,) = run(adapter, request)[0].items
    weight = adapter._model.encoder.module.words.weight
    expected = 2 * weight[torch.tensor([1, 5, 2])].mean(0).numpy()
    assert np.abs(item.dense.values - expected).max() <= 1e-6


def test_code_of_another_repository_is_not_run_even_so(folder):
    change_json(folder, "config.json", auto_map={"AutoModel": "evil/repo--modeling.Evil"})
    with pytest.raises(ModelLoadFailed, match=r"'evil/repo--modeling.Evil', in another repository"):
        read_and_load(folder, may_run_code=True)


def test_code_that_was_not_fetched_says_how_to_fetch_it(folder):
    (folder / "modeling_toy.py").unlink()
    with pytest.raises(ModelLoadFailed, match=r"modeling_toy.py, which was not fetched; run"):
        read_and_load(folder, may_run_code=True)


def test_code_that_fails_fails_the_load(folder):
    (folder / "modeling_toy.py").write_text("import a_library_that_nobody_has\n")
    with pytest.raises(ModelLoadFailed, match="a_library_that_nobody_has"):
        read_and_load(folder, may_run_code=True)


@pytest.mark.parametrize("row", [BERT, ALBERT], ids=["ours", "transformers"])
def test_code_beside_a_model_that_needs_none(row, folder, tmp_path):
    """A family of ours takes no notice; a family of transformers' might be meant otherwise."""
    save(row, "dense", folder)
    change_json(folder, "config.json", auto_map=AUTO_MAP)
    if row.packed:
        assert read_and_load(folder, may_run_code=True).card.packed is True
    else:
        with pytest.raises(ModelLoadFailed, match="auto_map"):
            read_and_load(folder)
    assert not (tmp_path / "ran").exists()


class Touch:
    """A pickle that makes a file when it is read."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("row", [BERT, ALBERT], ids=["ours", "transformers"])
@pytest.mark.parametrize("is_archive", [True, False], ids=["archive", "plain"])
def test_a_pickle_that_does_more_than_hold_tensors_is_not_run(row, is_archive, tmp_path):
    folder, ran = tmp_path / "m", tmp_path / "ran"
    save(row, "dense", folder)
    (folder / "model.safetensors").unlink()
    content = {"embeddings.word_embeddings.weight": Touch(ran)}
    with (folder / "pytorch_model.bin").open("wb") as file:
        if is_archive:
            torch.save(content, file)
        else:
            pickle.dump(content, file, protocol=2)
    with pytest.raises(ModelLoadFailed, match=r"pytorch_model.bin"):
        load(folder)
    assert not ran.exists()


@pytest.mark.parametrize("name", ["os.system", "torch.os.system", "builtins.exec"])
def test_an_activation_is_looked_up_and_never_imported(name, tmp_path):
    save(BERT, "dense", tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": "x.Dense"})
    write_json(tmp_path / "modules.json", modules)
    (tmp_path / "2_Dense").mkdir()
    save_file({"linear.weight": torch.randn(8, 32)}, tmp_path / "2_Dense/model.safetensors")
    config = {"in_features": 32, "out_features": 8, "bias": False, "activation_function": name}
    write_json(tmp_path / "2_Dense/config.json", config)
    with pytest.raises(ModelLoadFailed, match=name):
        load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attn_implementation": "evil/kernel"}, None),
        ({"_attn_implementation": "evil/kernel"}, None),
        ({"quantization_config": {"quant_method": "evil"}}, "quantization_config"),
        ({"auto_map": "evil"}, "auto_map"),
    ],
)
def test_settings_that_would_fetch_or_run_something(changes, message, tmp_path):
    """A kernel named in config.json is not asked for; what cannot be ignored is refused."""
    save(ALBERT, "dense", tmp_path)
    change_json(tmp_path, "config.json", **changes)
    if message is None:
        assert load(tmp_path).card.packed is False
    else:
        with pytest.raises(ModelLoadFailed, match=message):
            load(tmp_path)


def test_an_adapter_s_base_model_is_not_looked_for(tmp_path):
    save(ALBERT, "dense", tmp_path)
    write_json(tmp_path / "adapter_config.json", {"base_model_name_or_path": "evil/base"})
    with pytest.raises(ModelLoadFailed, match=r"adapter_config.json"):
        load(tmp_path)
