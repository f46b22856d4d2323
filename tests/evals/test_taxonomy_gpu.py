"""Models that were packed without weights get some of the real shapes, and keep their names."""

import json

from safetensors.torch import load_file
from transformers import BertConfig

from evals import taxonomy_gpu
from sie_mcp.catalogue.files import load_catalogue


def test_packed_models_get_weights_of_their_shapes(tmp_path) -> None:
    transformer, table = (tmp_path / "packed" / name for name in taxonomy_gpu.MODELS)
    for folder in (transformer, table):
        folder.mkdir(parents=True)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertConfig(vocab_size=11, intermediate_size=16, **sizes).save_pretrained(transformer)
    (table / "config.json").write_text(json.dumps({"hidden_dim": 4}))
    words = {"model": {"vocab": {"a": 0, "b": 1, "c": 2}}}
    (table / "tokenizer.json").write_text(json.dumps(words))

    catalogue = load_catalogue(taxonomy_gpu.unpack(tmp_path / "packed", tmp_path))

    for name in taxonomy_gpu.MODELS:
        entry = catalogue.find(name)
        assert entry is not None and [one.kind for one in entry.sources] == ["path"]
        weights = load_file(entry.sources[0].path / "model.safetensors")
        shape = {"embeddings": (3, 4), "embeddings.word_embeddings.weight": (11, 8)}
        assert all(tuple(weights[key].shape) == shape[key] for key in weights.keys() & shape.keys())
        assert weights.keys() & shape.keys()
