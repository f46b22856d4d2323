"""CLIP's, SigLIP's and SigLIP 2's towers for images: packed patches in, a vector an image out.

Source: Dosovitskiy et al. 2021 (patches), Radford et al. 2021, Zhai et al. 2023, Tschannen et al.
2025 (images of any shape). Tensor names as in transformers' CLIPModel and SiglipModel. Knows no
file format and no picture: colours of patches, 0 to 255, are all it reads.
"""

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.image_rule import ImageRule
from sie_mcp.adapters.layers.attention_pooling import AttentionPooling
from sie_mcp.adapters.layers.grid_positions import grid_positions
from sie_mcp.adapters.model import Config, Vision
from sie_mcp.adapters.models.tower import LAYER_RENAMES, Layer, run_layers


class Patches(nn.Module):
    """Colours to hidden states: scaled as in training, then one matrix product."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, config: Config, rule: ImageRule, *, has_bias: bool, is_flat: bool) -> None:
        super().__init__()
        size, side = config["hidden_size"], rule.patch_size
        # A convolution's weight as it lies in the file; a patch at a time it is a matrix.
        shape = (size, rule.patch_numbers) if is_flat else (size, 3, side, side)
        self.weight = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(size)) if has_bias else None
        self.register_buffer("scale", _a_patch(rule.scale, rule), persistent=False)
        self.register_buffer("shift", _a_patch(rule.shift, rule), persistent=False)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        """Return `(num_patches, hidden_size)` from uint8 `(num_patches, patch_numbers)`."""
        dtype = self.weight.dtype
        if patches.is_cuda:
            # Widened, scaled and rounded in one pass; on a CPU that takes twice as long as apart.
            x = torch.empty(patches.shape, dtype=dtype, device=patches.device)
            torch.addcmul(self.shift, patches, self.scale, out=x)
        else:
            x = torch.addcmul(self.shift, patches.float(), self.scale).to(dtype)
        return nn.functional.linear(x, self.weight.flatten(1), self.bias)


class ClassTower(nn.Module):
    """CLIP's: a class token stands before the patches, and its last state is the image's."""

    def __init__(self, config: Config, rule: ImageRule) -> None:
        super().__init__()
        size, eps = config["hidden_size"], config["layer_norm_eps"]
        self.patches = Patches(config, rule, has_bias=False, is_flat=False)
        self.first = nn.Parameter(torch.empty(size))
        self.position = nn.Embedding(num_positions(config) + 1, size)
        self.pre_norm = nn.LayerNorm(size, eps=eps)
        self.layers = _layers(config)
        self.norm = nn.LayerNorm(size, eps=eps)
        self.projection = nn.Linear(size, config["projection_dim"], bias=False)

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return vectors `(num_seqs, projection_dim)`."""
        assert batch.images is not None
        x = self.patches(batch.images.values)
        x = x.view(batch.num_seqs, -1, x.shape[-1])
        first = self.first.expand(batch.num_seqs, 1, -1)
        x = torch.cat((first, x), dim=1) + self.position.weight
        x = self.pre_norm(x.flatten(0, 1))
        x = run_layers(self.layers, x, None, self.norm, batch)
        vectors: torch.Tensor = self.projection(x[batch.cu_seqlens[:-1]])
        return vectors


class PooledTower(nn.Module):
    """SigLIP's: a learnt query reads all patches. Images have one shape, or each its own."""

    def __init__(self, config: Config, rule: ImageRule) -> None:
        super().__init__()
        size, eps = config["hidden_size"], config["layer_norm_eps"]
        self.has_shapes = bool(rule.max_patches)
        self.patches = Patches(config, rule, has_bias=True, is_flat=self.has_shapes)
        self.position = nn.Embedding(num_positions(config), size)
        self.layers = _layers(config)
        self.norm = nn.LayerNorm(size, eps=eps)
        self.head = AttentionPooling(
            size,
            config["num_attention_heads"],
            config["intermediate_size"],
            config["hidden_act"],
            eps,
        )

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return vectors `(num_seqs, hidden_size)`."""
        assert batch.images is not None
        x, positions = self.patches(batch.images.values), self._positions(batch)
        x = run_layers(self.layers, x, positions, self.norm, batch)
        vectors: torch.Tensor = self.head(x, batch)
        return vectors

    def _positions(self, batch: PackedBatch) -> torch.Tensor:
        """Return a vector a patch, from the table or, where shapes differ, between its rows."""
        if self.has_shapes:
            return grid_positions(self.position.weight, batch)
        found: torch.Tensor = self.position(batch.position_ids)
        return found


def num_positions(config: Config) -> int:
    """Return how many patches the table of positions is for."""
    if "num_patches" in config:
        return int(config["num_patches"])
    return (int(config["image_size"]) // int(config["patch_size"])) ** 2


def _layers(config: Config) -> nn.ModuleList:
    return nn.ModuleList(Layer(config, is_causal=False) for _ in range(config["num_hidden_layers"]))


def _a_patch(colours: tuple[float, float, float], rule: ImageRule) -> torch.Tensor:
    """Repeat three numbers over a patch, in the order in which it lists its colours.

    On the host wherever the module is made: computed, not read from a file.
    """
    values = torch.tensor(colours, dtype=torch.float32, device="cpu")
    num_pixels = rule.patch_size**2
    if rule.has_colours_last:
        return values.repeat(num_pixels)
    return values.repeat_interleave(num_pixels)


_BEFORE = r"vision_model\."
_TOWER = (
    *((_BEFORE + pattern, ours) for pattern, ours in LAYER_RENAMES),
    (_BEFORE + r"embeddings\.patch_embedding\.(.*)", r"patches.\1"),
    (_BEFORE + r"embeddings\.position_embedding\.(.*)", r"position.\1"),
    (_BEFORE + r"post_layernorm\.(.*)", r"norm.\1"),
)
_HEAD = _BEFORE + r"head\."
CLIP = Vision(
    build=ClassTower,
    renames=(
        *_TOWER,
        (_BEFORE + r"embeddings\.class_embedding", "first"),
        (_BEFORE + r"pre_layrnorm\.(.*)", r"pre_norm.\1"),
        (r"visual_projection\.(.*)", r"projection.\1"),
    ),
    num_extra=1,
    defaults={
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "image_size": 224,
        "patch_size": 32,
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-5,
    },
)
_SIGLIP = (
    *_TOWER,
    (_HEAD + r"probe", "head.probe"),
    (_HEAD + r"attention\.in_proj_(weight|bias)", r"head.qkv.\1"),
    (_HEAD + r"attention\.out_proj\.(.*)", r"head.out.\1"),
    (_HEAD + r"layernorm\.(.*)", r"head.norm.\1"),
    (_HEAD + r"mlp\.fc1\.(.*)", r"head.mlp.up.\1"),
    (_HEAD + r"mlp\.fc2\.(.*)", r"head.mlp.down.\1"),
)
_SIGLIP_DEFAULTS = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "patch_size": 16,
    "hidden_act": "gelu_pytorch_tanh",
    "layer_norm_eps": 1e-6,
    "vision_use_head": True,
}
SIGLIP = Vision(
    build=PooledTower,
    renames=_SIGLIP,
    is_each_alone=True,
    defaults={**_SIGLIP_DEFAULTS, "image_size": 224},
)
SIGLIP2 = Vision(
    build=PooledTower,
    renames=_SIGLIP,
    is_each_alone=True,
    has_shapes=True,
    defaults={**_SIGLIP_DEFAULTS, "num_patches": 256},
)
