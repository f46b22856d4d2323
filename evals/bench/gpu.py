"""Packed forward passes on one CUDA device beside transformers, in the same run.

Random weights of real shapes; token lengths log-normal (median 60, 8 to 512); only real tokens are
counted. Ours: pack, forward, pooling, copy back. Peer: transformers with SDPA in float16, sorted by
length, best of two batch sizes, mean pooling. The floor is the matrix products of each layer alone.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import transformers

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.dense import DenseOutput
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.adapters.recipe import Recipe

NUM_TEXTS = 4_096
ROUNDS = 3
SHAPES = {
    "MiniLM-L6": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12},
    "bge-base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
    "bge-large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16},
}


@dataclass(frozen=True, slots=True)
class Speed:
    """Real tokens a second of one model on the heavy-tailed workload."""

    model: str
    budget: int
    ours: float
    transformers: float
    floor: float

    @property
    def ratio(self) -> float:
        """Ours over the peer."""
        return self.ours / self.transformers

    @property
    def of_floor(self) -> float:
        """Share of the bare matrix products' speed."""
        return self.ours / self.floor


def lengths() -> list[int]:
    """Draw the workload's token counts."""
    rng = np.random.default_rng(0)
    drawn = rng.lognormal(np.log(60), 0.9, NUM_TEXTS)
    return [int(one) for one in np.clip(drawn, 8, 512)]


def measure(budgets: tuple[int, ...] = (16_384, 65_536)) -> list[Speed]:
    """Measure every shape, interleaving ours and the peer."""
    speeds = []
    for name, shape in SHAPES.items():
        config = {**shape, "intermediate_size": 4 * shape["hidden_size"], "vocab_size": 30_522}
        config |= {"max_position_embeddings": 512, "model_type": "bert"}
        work = lengths()
        tokens = sum(work)
        peer = _peer(config, work)
        floor = tokens / _time(lambda c=config, t=tokens: _products(c, t))
        for budget in budgets:
            ours = _ours(config, work, budget)
            own, other = [], []
            for _ in range(ROUNDS):
                own.append(tokens / _time(ours))
                other.append(tokens / _time(peer))
            speeds.append(
                Speed(name, budget, statistics.median(own), statistics.median(other), floor)
            )
    return speeds


def _ours(config: dict, work: list[int], budget: int) -> Callable[[], None]:
    recipe = Recipe(
        name="bench",
        folder=Path(),
        architecture="bert",
        config=config,
        tasks=("dense",),
        max_length=512,
        pooling=("mean",),
    )
    device = torch.device("cuda")
    model = Model(recipe, ARCHITECTURES["bert"]).to(device, torch.bfloat16).eval()
    output = DenseOutput(recipe, model, config["hidden_size"])
    rng = np.random.default_rng(1)
    sequences = [Sequence(rng.integers(0, 30_000, n)) for n in work]
    batches: list[list[Sequence]] = [[]]
    used = 0
    for sequence in sequences:
        if used + sequence.num_tokens > budget:
            batches.append([])
            used = 0
        batches[-1].append(sequence)
        used += sequence.num_tokens

    def run() -> None:
        with torch.inference_mode():
            for batch in batches:
                packed = pack(sorted(batch, key=lambda one: -one.num_tokens), device)
                unpack(output.forward(model.encoder(packed), packed), packed.num_seqs)

    return run


def _peer(config: dict, work: list[int]) -> Callable[[], None]:
    settings = {key: value for key, value in config.items() if key != "model_type"}
    model = transformers.BertModel(
        transformers.BertConfig(**settings, attn_implementation="sdpa"), add_pooling_layer=False
    )
    model = model.to("cuda", torch.float16).eval()
    ordered = sorted(work, reverse=True)

    def run(size: int = 256) -> None:
        with torch.inference_mode():
            for start in range(0, len(ordered), size):
                part = torch.tensor(ordered[start : start + size])
                mask = torch.arange(int(part.max()))[None] < part[:, None]
                ids = torch.randint(0, 30_000, mask.shape).cuda(non_blocking=True)
                mask = mask.cuda(non_blocking=True)
                hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
                kept = mask[..., None]
                ((hidden * kept).sum(1) / kept.sum(1)).cpu()

    return min((run, lambda: run(64)), key=_time)


def _products(config: dict, tokens: int) -> None:
    """Run the four matrix products of every layer on the whole workload, a budget at a time."""
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    step = 65_536
    x = torch.randn(step, hidden, device="cuda", dtype=torch.bfloat16)
    y = torch.randn(step, wide, device="cuda", dtype=torch.bfloat16)
    weights = [
        torch.randn(a, b, device="cuda", dtype=torch.bfloat16)
        for a, b in ((hidden, 3 * hidden), (hidden, hidden), (hidden, wide), (wide, hidden))
    ]
    for _ in range(config["num_hidden_layers"]):
        left = tokens
        while left > 0:
            rows = min(step, left)
            for weight in weights[:3]:
                x[:rows] @ weight
            y[:rows] @ weights[3]
            left -= rows


def _time(run: Callable[[], None]) -> float:
    run()
    torch.cuda.synchronize()
    started = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def as_rows(speeds: list[Speed]) -> list[dict]:
    """Return plain rows for the record."""
    return [
        {**asdict(one), "ratio": round(one.ratio, 2), "of_floor": round(one.of_floor, 3)}
        for one in speeds
    ]
