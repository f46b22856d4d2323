"""Rotary positions: each pair of a head's dimensions turns with the token's place.

Source: Su et al. 2021; the pairing of the two halves of a head is GPT-NeoX's, which checkpoints of
transformers follow. Knows config keys of positions, no model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.layers.rope_scaling import Scaling, read_scaling
from sie_mcp.errors import ModelLoadFailed

# Cosines and sines of a batch, float32 `(num_tokens, 1, head_dim)` each.
Turns = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Rotary:
    """How fast positions turn: pair i of a head at theta^(-2i / head_dim) a token, then scaled."""

    head_dim: int
    theta: float
    scaling: Scaling

    def turns(self, batch: PackedBatch) -> Turns:
        """Return what `rotate` needs; once a batch, all layers share it."""
        device = batch.position_ids.device
        places = torch.arange(0, self.head_dim, 2, dtype=torch.float32, device=device)
        speeds = self.scaling.slow(1.0 / self.theta ** (places / self.head_dim), self.theta)
        angles = batch.position_ids.float()[:, None] * speeds
        angles = torch.cat((angles, angles), dim=-1)[:, None]
        amplitude = self.scaling.amplitude
        return angles.cos() * amplitude, angles.sin() * amplitude


def rotate(x: torch.Tensor, turns: Turns, batch: PackedBatch) -> torch.Tensor:
    """Turn queries or keys `(num_tokens, num_heads, head_dim)`; in float32, dtype kept.

    Args:
        x: Of all tokens of the batch.
        turns: Of the same.
        batch: Tells whether a kernel may run.
    """
    cos, sin = turns
    kernels = usable("turns", x, batch)
    if kernels is not None:
        turned: torch.Tensor = kernels.turned(x, cos, sin)
        return turned
    wide = x.float()
    first, second = wide.chunk(2, dim=-1)
    return (wide * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)


def read_rotary(
    config: Mapping[str, Any], *, theta: float, layer_type: str | None = None
) -> Rotary:
    """Read the rotary settings of a model, or of one of its types of layers.

    Args:
        config: Of the model; old keys (rope_scaling) and new ones (rope_parameters).
        theta: Where neither says another.
        layer_type: The entry of rope_parameters, where it has one a type.

    Raises:
        ModelLoadFailed: a kind of scaling that we do not know.
    """
    given = config.get("rope_parameters") or {}
    if layer_type is not None:
        given = given.get(layer_type) or {}
    settings = {**(config.get("rope_scaling") or {}), **given}
    part = settings.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0
    if part != 1.0:
        raise ModelLoadFailed("config.json: partial_rotary_factor is not supported, unless 1.0")
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return Rotary(
        head_dim=head_dim,
        theta=float(settings.get("rope_theta", theta)),
        scaling=read_scaling(settings, config),
    )
