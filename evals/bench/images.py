"""Towers for images beside transformers, in the same run: `python -m evals.bench images [--gpu]`.

One checkpoint for both, of SigLIP-base's shape with random weights: one size of pictures (224
pixels), and any shape (NaFlex, at most 256 patches), where transformers pads each picture to 256.
Pictures are JPEGs of mixed resolutions and shapes. "files" is all of it, from a file's bytes to a
vector on the host; "forward" has the pictures unpacked, on the host. Ours is a worker's own path
with its default budget: pack, forward, the check of every number, copy back. It unpacks on one
thread, as the peer does, so that files compare too. Both in bfloat16 on a card, the peer with the
best of three batch sizes, once more with its pictures on the card beforehand; medians of rounds in
turns. Cosines are to the peer in float32.
"""

import io
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from evals.bench.forwards import make_forwards, run_all
from evals.bench.gpu_profile import top_kernels
from evals.bench.image_models import FAMILIES, TINY, pictures, save
from evals.bench.shapes import batches
from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter, Result, Sequence
from sie_mcp.engine.hardware import max_batch_tokens
from sie_mcp.engine.recovery import Forwards

# Some dozen batches of ours.
NUM_PICTURES = {"cuda": 1_024, "cpu": 6}
# Of them, those that are unpacked within the measured time, on one thread.
NUM_FILES = 64
PEER_BATCHES = {"cuda": (16, 64, 256), "cpu": (2, 6)}
ROUNDS = 5
# Of half precision on both sides.
MIN_COSINE = {"cuda": 0.99, "cpu": 0.9999}
PATHS = frozenset({"kernels", "graphs", "overlap"})
# Until what recurs is compiled and its memory there.
WARM_UPS = 3


@dataclass(frozen=True, slots=True)
class Speed:
    """Pictures a second of one family, and how far both sides' vectors are from float32."""

    family: str
    part: str
    pictures: int
    ours: float
    transformers: float
    transformers_batch: int
    transformers_on_card: float
    min_cosine: float
    transformers_min_cosine: float

    @property
    def ratio(self) -> float:
        """Ours over the peer."""
        return self.ours / self.transformers


@dataclass(frozen=True, slots=True)
class Peer:
    """Transformers' tower and processor."""

    tower: Any
    processor: Any
    device: torch.device

    def to(self, dtype: torch.dtype) -> None:
        """Bring the weights to the device in this precision."""
        self.tower.to(self.device, dtype)

    def run(self, inputs: list[dict[str, torch.Tensor]]) -> torch.Tensor:
        """Return vectors on the host."""
        with torch.inference_mode():
            rows = [self.tower(**self.placed(part)).pooler_output.cpu() for part in inputs]
        return torch.cat(rows)

    def placed(self, part: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return inputs on the device, colours in the weights' precision."""
        dtype = self.tower.dtype
        return {
            name: one.to(self.device, dtype if name == "pixel_values" else None)
            for name, one in part.items()
        }

    def inputs(self, files: list[bytes]) -> dict[str, torch.Tensor]:
        """Unpack pictures, on this thread."""
        opened = [Image.open(io.BytesIO(one)).convert("RGB") for one in files]
        return dict(self.processor(images=opened, return_tensors="pt"))


@dataclass(frozen=True, slots=True)
class Ours:
    """Our adapter on a worker's path."""

    adapter: Adapter
    forwards: Forwards
    budget: int

    def run(self, sequences: list[Sequence]) -> list[Result]:
        """Return vectors on the host, in the order in which batches hold their pictures."""
        parts = batches(sequences, self.budget)
        return [one for part in run_all(self.forwards, self.adapter, parts) for one in part]

    def sequences(self, files: list[bytes]) -> list[Sequence]:
        """Unpack pictures, on this thread."""
        items = [{"image": one} for one in files]
        request = wire.EncodeRequest.model_validate({"items": items})
        return self.adapter.prepare(request).sequences


def measure(device: torch.device, *, tiny: bool = False) -> list[Speed]:
    """Measure both families, ours and the peer in turns; `tiny`: two pictures,
    two narrow layers, one turn.

    Raises:
        AssertionError: the vectors are not the peer's.
    """
    files = pictures(2 if tiny else NUM_PICTURES[device.type])
    speeds = [one for family in FAMILIES for one in _family(family, files, device, tiny=tiny)]
    for one in speeds:
        if not one.min_cosine > MIN_COSINE[device.type]:
            raise AssertionError(
                f"{one.family}: a vector has cosine {one.min_cosine} to the peer's in float32"
            )
    return speeds


def _family(family: str, files: list[bytes], device: torch.device, *, tiny: bool) -> list[Speed]:
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    ours, peer = _both(family, device, dtype, tiny=tiny)
    chunks = _parts(files, max(PEER_BATCHES[device.type]))
    with ThreadPoolExecutor() as threads:
        sequences = [one for part in threads.map(ours.sequences, chunks) for one in part]
        whole = list(threads.map(peer.inputs, chunks))
    by_size = {size: _cut(whole, size) for size in PEER_BATCHES[device.type]}
    peer.to(torch.float32)
    exact = peer.run(by_size[min(by_size)])
    peer.to(dtype)
    cosines = (
        _lowest_cosine(_in_order(ours, sequences), exact),
        _lowest_cosine(peer.run(by_size[min(by_size)]), exact),
    )
    size = _best(peer, by_size, device)
    placed, some = [peer.placed(part) for part in by_size[size]], files[:NUM_FILES]
    runs: dict[str, tuple[int, tuple[Callable[[], object], ...]]] = {
        "forward": (
            len(files),
            (
                partial(ours.run, sequences),
                partial(peer.run, by_size[size]),
                partial(peer.run, placed),
            ),
        ),
        "files": (
            len(some),
            (
                lambda: ours.run(ours.sequences(some)),
                lambda: peer.run([peer.inputs(part) for part in _parts(some, size)]),
            ),
        ),
    }
    speeds = []
    for part, (count, sides) in runs.items():
        own, theirs, *on_card = (count / one for one in _by_turns(sides, device, tiny=tiny))
        beside = on_card[0] if on_card else float("nan")
        speeds.append(Speed(family, part, count, own, theirs, size, beside, *cosines))
    if device.type == "cuda":
        print({"family": family, **_profile(ours, sequences)}, flush=True)
    return speeds


def _both(
    family: str, device: torch.device, dtype: torch.dtype, *, tiny: bool
) -> tuple[Ours, Peer]:
    """Return both sides with the weights of one checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        peer = Peer(*save(family, Path(folder), TINY if tiny else {}), device)
        recipe = create.read_recipe(family, Path(folder), None)
        adapter = create.load_adapter(recipe, device=device, dtype=dtype, paths=PATHS)
    return Ours(adapter, make_forwards(device), max_batch_tokens(None, device)), peer


def _by_turns(
    sides: tuple[Callable[[], object], ...], device: torch.device, *, tiny: bool
) -> list[float]:
    """Return the median seconds of each side; ours is the first."""
    for _ in range(0 if tiny else WARM_UPS):
        sides[0]()
    turns = [[_time(side, device) for side in sides] for _ in range(1 if tiny else ROUNDS)]
    return [statistics.median(side) for side in zip(*turns, strict=True)]


def _in_order(ours: Ours, sequences: list[Sequence]) -> torch.Tensor:
    """Return vectors in the order of the sequences."""
    ran = [one for part in batches(sequences, ours.budget) for one in part]
    vectors = {id(one): row for one, row in zip(ran, ours.run(sequences), strict=True)}
    return torch.from_numpy(np.concatenate([_dense(vectors[id(one)]) for one in sequences]))


def _dense(result: Result) -> np.ndarray:
    if isinstance(result, Exception):
        raise result
    return result["dense"]


def _lowest_cosine(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float(torch.cosine_similarity(found.double(), exact.double()).min())


def _best(peer: Peer, by_size: dict[int, list[dict[str, torch.Tensor]]], device: Any) -> int:
    """Return the batch size with which the peer is the fastest."""
    for inputs in by_size.values():
        peer.run(inputs[:1])
    tried = {size: _time(partial(peer.run, one), device) for size, one in by_size.items()}
    return min(tried, key=lambda one: tried[one])


def _profile(ours: Ours, sequences: list[Sequence]) -> dict[str, Any]:
    """Take one batch of ours apart: the device's kernels, and the host until all are launched."""
    part = batches(sequences, ours.budget)[0]
    launched, walls = [], []
    for _ in range(20):
        torch.cuda.synchronize()
        started = time.perf_counter()
        finish = ours.forwards.start(ours.adapter, part)
        launched.append(time.perf_counter() - started)
        finish()
        walls.append(time.perf_counter() - started)
    return {
        "pictures": len(part),
        "tokens": sum(one.num_tokens for one in part),
        "launched_ms": round(1000 * statistics.median(launched), 3),
        "wall_ms": round(1000 * statistics.median(walls), 3),
        **top_kernels(lambda: ours.forwards.run(ours.adapter, part)),
    }


def _cut(whole: list[dict[str, torch.Tensor]], size: int) -> list[dict[str, torch.Tensor]]:
    """Cut large batches of inputs into smaller ones."""
    return [
        dict(zip(part, own, strict=True))
        for part in whole
        for own in zip(*(one.split(size) for one in part.values()), strict=True)
    ]


def _parts(files: list[bytes], size: int) -> list[list[bytes]]:
    return [files[start : start + size] for start in range(0, len(files), size)]


def _time(run: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of one run, which ends on the host."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def as_rows(speeds: list[Speed]) -> list[dict[str, Any]]:
    """Return plain rows for the record."""
    rows = []
    for one in speeds:
        numbers = asdict(one) | {"ratio": one.ratio}
        if np.isnan(one.transformers_on_card):
            del numbers["transformers_on_card"]
        digits = {"min_cosine": 6, "transformers_min_cosine": 6}
        rows.append(
            {
                name: round(value, digits.get(name, 2)) if isinstance(value, float) else value
                for name, value in numbers.items()
            }
        )
    return rows
