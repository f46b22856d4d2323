"""The linear layers of a model on a CPU, kept in the order its matrix products read them in.

Knows modules and their weights; which products are worth it is the layers' to say.
"""

from collections import Counter
from collections.abc import Collection

import torch
from torch import nn

from sie_mcp.adapters.flat import FlatWeights
from sie_mcp.adapters.layers.cpu.int8_linear import Int8Linear
from sie_mcp.adapters.layers.cpu.packed_linear import PACKABLE, PackedLinear, can_pack
from sie_mcp.adapters.model import Model

# What a layer is replaced by.
Packing = type[PackedLinear] | type[Int8Linear]
# Of each architecture the layers that are read by more than their own products.
READ_ELSEWHERE: dict[str, tuple[str, ...]] = {"deberta-v2": ("qkv",)}
# A smaller product is over before its packed form is looked up.
MIN_NUMBERS = 64 * 64


class CpuLinears:
    """Layers that were replaced, by name."""

    # What they are packed into is no larger than what they were.
    extra_bytes = 0

    def __init__(self, layers: dict[str, PackedLinear | Int8Linear]) -> None:
        self._layers = layers

    def take(self) -> Collection[str]:
        """Pack all; return the names of their weights."""
        for layer in self._layers.values():
            layer.pack()
        return [f"{name}.weight" for name in self._layers]

    def plain(self, name: str) -> torch.Tensor:
        """Return weights as the checkpoint has them."""
        return self._layers[name.removesuffix(".weight")].unpacked()

    def drop(self) -> None:
        """Free the packed weights."""
        for layer in self._layers.values():
            layer.drop()


def pack_linears(model: Model, architecture: str, weights: FlatWeights, packing: Packing) -> int:
    """Replace the encoder's linear layers by packed ones; return how many.

    Layers of other classes, and those that share their weights or are read by others, stay.

    Args:
        model: Its weights are on the CPU.
        architecture: By name: some read a layer's weights themselves.
        weights: All of the model's.
        packing: What they are replaced by.
    """
    if not can_pack():
        return 0
    encoder, others = model.encoder, READ_ELSEWHERE.get(architecture, ())
    uses = Counter(id(one) for _, one in model.named_parameters(remove_duplicate=False))
    found = {
        name: packing(one)
        for name, one in encoder.named_modules()
        if type(one) is nn.Linear
        and one.weight.dtype in PACKABLE
        and one.weight.numel() >= MIN_NUMBERS
        and uses[id(one.weight)] == 1
        and name.rpartition(".")[2] not in others
    }
    for name, layer in found.items():
        encoder.set_submodule(name, layer)
    if found:
        weights.hand_over(CpuLinears({f"encoder.{name}": one for name, one in found.items()}))
    return len(found)
