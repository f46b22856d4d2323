"""CLIP's tower for texts: a token sees only what is before it, so the last one has read them all.

Source: Radford et al. 2021; defaults as in transformers' CLIPTextConfig. The tower for images is in
`vision`.
"""

from torch import nn

from sie_mcp.adapters.model import Config, Head, TextFeatures
from sie_mcp.adapters.models import vision
from sie_mcp.adapters.models.tower import make_text_architecture


def _size(config: Config) -> int:
    size: int = config["projection_dim"]
    return size


def _build_projection(config: Config, _: int) -> nn.Module:
    return nn.Linear(config["hidden_size"], _size(config), bias=False)


ARCHITECTURE = make_text_architecture(
    is_causal=True,
    head=Head(_build_projection, ((r"text_projection\.(.*)", r"\1"),)),
    features=TextFeatures(_size),
    vision=vision.CLIP,
    defaults={
        "vocab_size": 49408,
        "hidden_size": 512,
        "intermediate_size": 2048,
        "projection_dim": 512,
        "num_hidden_layers": 12,
        "num_attention_heads": 8,
        "max_position_embeddings": 77,
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-5,
        "eos_token_id": 49407,
    },
)
