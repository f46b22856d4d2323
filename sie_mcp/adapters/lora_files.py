"""Reading a PEFT folder for one base model: adapter_config.json and adapter_model.safetensors.

Every setting that would change what an adapter computes is served or refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sie_mcp import wire
from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.lora import Change, Lora, LowRank, Replacement
from sie_mcp.adapters.model import Architecture, Model
from sie_mcp.adapters.on_meta import on_meta
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tensor_names import plan_of, target_of
from sie_mcp.adapters.tensors import TensorSource, open_file, open_tensors
from sie_mcp.errors import ModelLoadFailed

CONFIG, WEIGHTS = "adapter_config.json", ("adapter_model.safetensors", "adapter_model.bin")
_ROOT = "base_model.model."
_LOW_RANK = re.compile(r"(.+)\.lora_([AB])(?:\.default)?\.weight")
# Settings that only matter in training, or only say which layers have an adapter.
_HARMLESS = frozenset(
    (
        *("auto_mapping", "base_model_name_or_path", "bias", "ensure_weight_tying", "eva_config"),
        *("exclude_modules", "inference_mode", "init_lora_weights", "layers_pattern"),
        *("layers_to_transform", "loftq_config", "lora_alpha", "lora_dropout", "lora_ga_config"),
        *("modules_to_save", "peft_type", "peft_version", "r", "rank_pattern", "alpha_pattern"),
        *("revision", "target_modules", "task_type", "use_rslora", "corda_config"),
        *("megatron_config", "megatron_core", "runtime_config", "qalora_group_size"),
    )
)


@dataclass(frozen=True, slots=True)
class LoraPlan:
    """An adapter that can be loaded: where its tensors go, and their size in numbers."""

    name: str
    folder: Path
    base: Recipe
    scales: Mapping[str, float]
    num_parameters: int


def read_lora(name: str, folder: Path, base: Recipe, architecture: Architecture) -> LoraPlan:
    """Read an adapter's settings and check that its tensors belong to the base.

    Raises:
        ModelLoadFailed: no such files, a setting that is not served, or another base's tensors.
    """
    files = Files(folder)
    if not files.has(CONFIG):
        raise ModelLoadFailed(f"{name} has no {CONFIG}: it is no adapter")
    if not architecture.serves_lora:
        raise ModelLoadFailed(
            f"{base.name}: adapters on model_type {base.config.get('model_type')!r} are not served"
        )
    config = files.read(CONFIG)
    _check(config)
    source = _open(folder)
    scales: dict[str, float] = {}
    for tensor in source.names():
        layer, part = _split(tensor)
        target_name(layer, base, architecture)
        if part == "A":
            scales[layer] = _scale(config, layer, source.shape(tensor)[0])
    numbers = (torch.Size(source.shape(tensor)).numel() for tensor in source.names())
    return LoraPlan(name, folder, base, scales, sum(numbers))


def load_lora(
    plan: LoraPlan, architecture: Architecture, *, device: torch.device, dtype: torch.dtype
) -> Lora:
    """Read an adapter's tensors onto the device.

    Raises:
        ModelLoadFailed: a tensor that does not fit the base's layer.
    """
    source = _open(plan.folder)
    with on_meta():
        layers = dict(Model(plan.base, architecture).named_modules())
    firsts = _firsts(plan.base, architecture)
    found: dict[str, dict[str, torch.Tensor]] = {}
    for tensor in source.names():
        layer, part = _split(tensor)
        found.setdefault(layer, {})[part] = source.get(tensor).to(device=device, dtype=dtype)
    changes: dict[str, tuple[Change, ...]] = {}
    for layer, parts in found.items():
        path, number = target_name(layer, plan.base, architecture)
        if not isinstance(layers.get(path), nn.Linear):
            raise ModelLoadFailed(f"{plan.name}: {layer} is no linear layer here, not served")
        first = firsts.get((path, number), 0)
        change = _make(plan, layer, parts, first, layers[path])
        changes[path] = (*changes.get(path, ()), change)
    card = wire.ModelCard(name=plan.name, outputs=["lora"], device=str(device))
    return Lora(card, changes)


def target_name(layer: str, base: Recipe, architecture: Architecture) -> tuple[str, int]:
    """Return our path of a layer, and which part of it where we keep several in one.

    Raises:
        ModelLoadFailed: a layer that the base does not have or does not use.
    """
    target = target_of(f"{layer}.weight", architecture, base)
    if target is None or target.startswith("heads.sparse."):
        raise ModelLoadFailed(f"an adapter on {layer} is not served by {base.name}")
    path, _, number = target.partition("#")
    return path.removesuffix(".weight"), int(number or 0)


def _open(folder: Path) -> TensorSource:
    for name in WEIGHTS:
        if (folder / name).is_file():
            return open_file(folder / name)
    raise ModelLoadFailed(f"{folder.name} has neither {WEIGHTS[0]} nor {WEIGHTS[1]}")


def _split(tensor: str) -> tuple[str, str]:
    """Return the layer a tensor belongs to, and what it is there: A, B, weight or bias."""
    name = tensor.removeprefix(_ROOT).replace(".modules_to_save.default.", ".")
    match = _LOW_RANK.fullmatch(name)
    if match is not None:
        return match[1], match[2]
    layer, _, part = name.rpartition(".")
    if not layer or "lora_" in name or part not in ("weight", "bias"):
        raise ModelLoadFailed(f"adapter tensor {tensor!r} is of a kind that is not served")
    return layer, part


def _check(config: Mapping[str, Any]) -> None:
    """Refuse settings that change what is computed."""
    if str(config.get("peft_type", "LORA")).upper() != "LORA":
        raise ModelLoadFailed(f"{CONFIG}: peft_type {config['peft_type']!r} is not LORA")
    if config.get("bias", "none") != "none":
        raise ModelLoadFailed(f"{CONFIG}: bias {config['bias']!r} is not served; 'none' is")
    start = config.get("init_lora_weights", True)
    if not isinstance(start, bool) and start not in ("gaussian", None):
        raise ModelLoadFailed(
            f"{CONFIG}: init_lora_weights {start!r} changes the base; convert the adapter first"
        )
    others = sorted(key for key, value in config.items() if value and key not in _HARMLESS)
    if others:
        raise ModelLoadFailed(f"{CONFIG}: {others[0]} {config[others[0]]!r} is not served")


def _scale(config: Mapping[str, Any], layer: str, rank: int) -> float:
    alpha = float(config.get("lora_alpha", 8))
    for pattern, value in (config.get("alpha_pattern") or {}).items():
        if re.fullmatch(rf"(?:.*\.)?(?:{pattern})", layer):
            alpha = float(value)
            break
    return float(alpha / (rank**0.5 if config.get("use_rslora") else rank))


def _firsts(base: Recipe, architecture: Architecture) -> dict[tuple[str, int], int]:
    """Return where each part of a fused layer starts among its outputs."""
    source = open_tensors(base.folder)
    firsts: dict[tuple[str, int], int] = {}
    for target, names in plan_of(source, architecture, base).items():
        if len(names) > 1 and target.endswith(".weight"):
            first = 0
            for number, name in enumerate(names):
                firsts[target.removesuffix(".weight"), number] = first
                first += source.shape(name)[0]
    return firsts


def _make(
    plan: LoraPlan, layer: str, parts: Mapping[str, torch.Tensor], first: int, linear: nn.Module
) -> Change:
    assert isinstance(linear, nn.Linear)
    shapes = {part: tuple(tensor.shape) for part, tensor in parts.items()}
    if parts.keys() == {"A", "B"}:
        down, up = parts["A"], parts["B"]
        fits = down.shape[1] == linear.in_features and down.shape[0] == up.shape[1]
        if fits and first + len(up) <= linear.out_features:
            return LowRank(down, up * plan.scales[layer], first)
    elif parts.keys() <= {"weight", "bias"} and shapes.get("weight") == linear.weight.shape:
        return Replacement(parts["weight"], parts.get("bias"))
    raise ModelLoadFailed(
        f"{plan.name}: {layer} has {shapes}, which does not fit {plan.base.name}'s layer of "
        f"{linear.out_features} x {linear.in_features}"
    )
