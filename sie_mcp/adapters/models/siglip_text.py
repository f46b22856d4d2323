"""SigLIP's and SigLIP 2's tower for texts: all tokens see each other, padding among them.

Source: Zhai et al. 2023, Tschannen et al. 2025; defaults as in transformers' SiglipTextConfig. The
vector is read at the last of all positions, whether a word or padding is there: texts were always
filled up in training, and nothing was hidden.
"""

from torch import nn

from sie_mcp.adapters.model import Architecture, Config, Head, TextFeatures, Vision
from sie_mcp.adapters.models import vision
from sie_mcp.adapters.models.tower import make_text_architecture


def _size(config: Config) -> int:
    size: int = config.get("projection_size") or config["hidden_size"]
    return size


def _build_head(config: Config, _: int) -> nn.Module:
    return nn.Linear(config["hidden_size"], _size(config))


def _make(images: Vision) -> Architecture:
    return make_text_architecture(
        is_causal=False,
        head=Head(_build_head, ((r"head\.(weight|bias)", r"\1"),)),
        features=TextFeatures(_size, is_padded=True),
        defaults=_DEFAULTS,
        vision=images,
    )


_DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 64,
    "hidden_act": "gelu_pytorch_tanh",
    "layer_norm_eps": 1e-6,
}
ARCHITECTURE, ARCHITECTURE2 = _make(vision.SIGLIP), _make(vision.SIGLIP2)
