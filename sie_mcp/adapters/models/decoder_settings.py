"""What sets families of decoders apart: the settings that each reads from its config."""

from dataclasses import dataclass, replace

from torch import nn

from sie_mcp.adapters.layers.masks import Window
from sie_mcp.adapters.layers.rms_norm import RmsNorm
from sie_mcp.adapters.layers.rotary import Rotary
from sie_mcp.adapters.model import Config
from sie_mcp.adapters.models.layer_types import is_causal


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a family reads from its config.

    Attributes:
        windows: One a layer; None sees the whole sequence.
        rotary: One a layer.
        scale: Of attention scores; None is 1 / sqrt(head_dim).
        softcap: What attention scores are bent to; None leaves them.
        norms_from_one: Weights of norms are counted from one.
        has_head_norms: Each head of queries and keys is normed before it turns.
        has_inner_norms: What attention and MLP add is normed first.
        embedding_scale: Of word vectors.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    eps: float
    act: str
    is_causal: bool
    windows: tuple[Window, ...]
    rotary: tuple[Rotary, ...]
    scale: float | None = None
    softcap: float | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    norms_from_one: bool = False
    has_head_norms: bool = False
    has_inner_norms: bool = False
    embedding_scale: float = 1.0

    def norm(self, size: int) -> RmsNorm:
        """Build a norm of the family's kind."""
        return RmsNorm(size, self.eps, from_one=self.norms_from_one)

    def head_norm(self) -> nn.Module:
        """Build the norm of a head, where there is one."""
        return self.norm(self.head_dim) if self.has_head_norms else nn.Identity()

    def inner_norm(self) -> nn.Module:
        """Build the norm of what is added, where there is one."""
        return self.norm(self.hidden_size) if self.has_inner_norms else nn.Identity()


def read_shared(
    config: Config, *, windows: tuple[Window, ...], rotary: tuple[Rotary, ...]
) -> Settings:
    """Read what all families call the same; each replaces what it calls or does otherwise."""
    return Settings(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        num_heads=config["num_attention_heads"],
        num_kv_heads=config.get("num_key_value_heads") or config["num_attention_heads"],
        head_dim=rotary[0].head_dim,
        eps=config.get("rms_norm_eps", 1e-6),
        act=config.get("hidden_act", "silu"),
        is_causal=is_causal(config),
        windows=windows,
        rotary=rotary,
    )


def with_biases(settings: Settings, config: Config) -> Settings:
    """Add biases around attention, where the config says so."""
    has_bias = config.get("attention_bias", False)
    return replace(settings, qkv_bias=has_bias, out_bias=has_bias)
