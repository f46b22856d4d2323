"""Towers for images beside transformers, in the same run: `python -m evals.bench images [--gpu]`.

Random weights of SigLIP-base's shape: one size of pictures (224 pixels), and any shape (NaFlex, at
most 256 patches), where transformers pads each picture to 256. Pictures are JPEGs of mixed
resolutions and shapes. "files" is all of it, from a file's bytes to a vector on the host; "forward"
has the pictures unpacked. Ours unpacks on one thread, as the peer does, so that files compare too.
Both in bfloat16 on a card, the peer with the best of three batch sizes; medians of rounds in turns.
"""

import io
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.image_rule import ImageRule
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.adapters.packing import pack
from sie_mcp.adapters.pictures import PictureReader
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tensor_names import target_of

NUM_PICTURES = {"cuda": 256, "cpu": 6}
# Of them, those that are unpacked within the measured time, on one thread.
NUM_FILES = 64
PEER_BATCHES = {"cuda": (16, 64, 256), "cpu": (2, 6)}
BUDGET_TOKENS = {"cuda": 16_384, "cpu": 4_096}
ROUNDS = 3
# Half precision on both sides.
MIN_COSINE = {"cuda": 0.99, "cpu": 0.9999}
_TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_SCALE, _SHIFT = (2 / 255,) * 3, (-1.0,) * 3
RULES = {
    "siglip": ImageRule(16, size=(224, 224), scale=_SCALE, shift=_SHIFT),
    "siglip2": ImageRule(
        16, max_patches=256, resample=2, scale=_SCALE, shift=_SHIFT, has_colours_last=True
    ),
}
PEERS: dict[str, tuple[Any, Any, Any]] = {
    "siglip": (
        transformers.SiglipVisionModel,
        transformers.SiglipVisionConfig(attn_implementation="sdpa"),
        SiglipImageProcessorPil(),
    ),
    "siglip2": (
        transformers.Siglip2VisionModel,
        transformers.Siglip2VisionConfig(attn_implementation="sdpa"),
        Siglip2ImageProcessorPil(),
    ),
}


@dataclass(frozen=True, slots=True)
class Speed:
    """Pictures a second of one family, and how far the vectors are from the peer's."""

    family: str
    part: str
    pictures: int
    ours: float
    transformers: float
    transformers_batch: int
    min_cosine: float

    @property
    def ratio(self) -> float:
        """Ours over the peer."""
        return self.ours / self.transformers


def pictures(count: int) -> list[bytes]:
    """Make JPEGs of smooth noise: 200 to 1,600 pixels a side, up to three times as wide as high."""
    rng = np.random.default_rng(0)
    files = []
    for _ in range(count):
        size = rng.integers(200, 1_600)
        shape = (int(size), int(np.clip(size * rng.uniform(0.33, 3.0), 64, 1_600)))
        small = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
        file = io.BytesIO()
        small.resize(shape, Image.Resampling.BICUBIC).save(file, "JPEG", quality=88)
        files.append(file.getvalue())
    return files


def measure(device: torch.device, *, tiny: bool = False) -> list[Speed]:
    """Measure both families, ours and the peer in turns; `tiny`: two pictures,
    two narrow layers, one turn.

    Raises:
        AssertionError: the vectors are not the peer's.
    """
    files = pictures(2 if tiny else NUM_PICTURES[device.type])
    speeds = [one for family in RULES for one in _family(family, files, device, tiny=tiny)]
    for one in speeds:
        if not one.min_cosine > MIN_COSINE[device.type]:
            raise AssertionError(
                f"{one.family}: a vector has cosine {one.min_cosine} to the peer's"
            )
    return speeds


def _family(family: str, files: list[bytes], device: torch.device, *, tiny: bool) -> list[Speed]:
    kind, config, processor = PEERS[family]
    if tiny:
        config = type(config)(**_TINY, attn_implementation="sdpa")
    torch.manual_seed(0)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    peer = kind(config).eval()
    tower = _tower(family, peer, config).to(device, dtype)
    peer = peer.to(device, dtype)
    reader = PictureReader(RULES[family])
    with ThreadPoolExecutor() as threads:
        sequences = list(threads.map(reader.sequence, files))

    def theirs(inputs: list[Any]) -> torch.Tensor:
        return _theirs(peer, inputs, device, dtype)

    by_size = {size: _all_inputs(processor, files, size) for size in PEER_BATCHES[device.type]}
    cosines = torch.cosine_similarity(
        _ours(tower, sequences, device).float(), theirs(by_size[min(by_size)]).float()
    )
    tried = {size: _time(partial(theirs, inputs), device) for size, inputs in by_size.items()}
    size = min(tried, key=lambda one: tried[one])
    some = files[:NUM_FILES]
    runs: dict[str, tuple[int, Callable[[], torch.Tensor], Callable[[], torch.Tensor]]] = {
        "forward": (
            len(files),
            lambda: _ours(tower, sequences, device),
            lambda: theirs(by_size[size]),
        ),
        "files": (
            len(some),
            lambda: _ours(tower, [reader.sequence(one) for one in some], device),
            lambda: theirs([_inputs(processor, part) for part in _parts(some, size)]),
        ),
    }
    speeds = []
    for part, (count, ours, other) in runs.items():
        turns = [
            (count / _time(ours, device), count / _time(other, device))
            for _ in range(1 if tiny else ROUNDS)
        ]
        own, peers = (statistics.median(side) for side in zip(*turns, strict=True))
        speeds.append(Speed(family, part, count, own, peers, size, float(cosines.min())))
    return speeds


def _tower(family: str, peer: Any, config: Any) -> torch.nn.Module:
    """Build our tower and give it the peer's weights."""
    row = ARCHITECTURES[family]
    assert row.vision is not None
    text = {**row.config_defaults, "num_hidden_layers": 1, "vocab_size": 8}
    recipe = Recipe(
        name="bench",
        folder=Path(),
        architecture=family,
        config=text,
        tasks=("dense",),
        max_length=64,
    )
    settings = {**row.vision.defaults, **config.to_dict()}
    recipe = replace(recipe, images=RULES[family], vision_config=settings)
    model = Model(recipe, row)
    assert model.vision is not None
    own = model.vision.state_dict()
    model.vision.load_state_dict(_renamed(peer, family, recipe, set(own)))
    return model.vision.eval()


def _renamed(peer: Any, family: str, recipe: Recipe, wanted: set[str]) -> dict[str, torch.Tensor]:
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in peer.state_dict().items():
        whole = name if name.startswith("vision_model.") else f"vision_model.{name}"
        target = target_of(whole, ARCHITECTURES[family], recipe)
        if target is not None:
            base, _, place = target.removeprefix("vision.").partition("#")
            parts.setdefault(base, {})[place] = tensor
    return {
        base: torch.cat([own[place] for place in sorted(own)])
        for base, own in parts.items()
        if base in wanted
    }


def _ours(tower: torch.nn.Module, sequences: list[Sequence], device: torch.device) -> torch.Tensor:
    batches: list[list[Sequence]] = [[]]
    left = BUDGET_TOKENS[device.type]
    for one in sequences:
        if one.num_tokens > left:
            batches.append([])
            left = BUDGET_TOKENS[device.type]
        batches[-1].append(one)
        left -= one.num_tokens
    with torch.inference_mode():
        return torch.cat([tower(pack(batch, device)).cpu() for batch in batches if batch])


def _inputs(processor: Any, files: list[bytes]) -> Any:
    opened = [Image.open(io.BytesIO(one)).convert("RGB") for one in files]
    return processor(images=opened, return_tensors="pt")


def _all_inputs(processor: Any, files: list[bytes], size: int) -> list[Any]:
    with ThreadPoolExecutor() as threads:
        return list(threads.map(partial(_inputs, processor), _parts(files, size)))


def _theirs(peer: Any, inputs: list[Any], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    rows = []
    with torch.inference_mode():
        for part in inputs:
            on_device = {
                name: one.to(device, dtype if name == "pixel_values" else None)
                for name, one in part.items()
            }
            rows.append(peer(**on_device).pooler_output.cpu())
    return torch.cat(rows)


def _parts(files: list[bytes], size: int) -> list[list[bytes]]:
    return [files[start : start + size] for start in range(0, len(files), size)]


def _time(run: Callable[[], torch.Tensor], device: torch.device) -> float:
    """Return the seconds of one run, which ends on the host."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def as_rows(speeds: list[Speed]) -> list[dict[str, Any]]:
    """Return plain rows for the record."""
    return [
        {
            **asdict(one),
            "ours": round(one.ours, 2),
            "transformers": round(one.transformers, 2),
            "min_cosine": round(one.min_cosine, 5),
            "ratio": round(one.ratio, 2),
        }
        for one in speeds
    ]
