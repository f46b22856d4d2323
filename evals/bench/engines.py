"""The engine in this process, over its whole path: tokenise, queue, batches, vectors.

Built by the worker's own composition root, so that nothing here is faster than a worker is.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.config import Config
from sie_mcp.engine.engine import Engine
from sie_mcp.engine.hardware import choose_dtype, share_interpreter, size_thread_pools
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.main import build_engine
from sie_mcp.engine.registry import Registry
from sie_mcp.engine.shape_caches import bound_shape_caches


@dataclass(frozen=True, slots=True)
class Asked:
    """What a part is told.

    Attributes:
        work: An empty folder for checkpoints and logs.
        tokenizer: A folder with tokenizer.json.
        paths: The faster ways that ours takes.
        num_threads: For tokenising; None: as a worker chooses.
    """

    device: torch.device
    work: Path
    tokenizer: Path
    tiny: bool = False
    paths: frozenset[str] = field(default_factory=frozenset)
    num_threads: int | None = None

    @property
    def shapes(self) -> tuple[str, ...]:
        """Models that a part of several runs."""
        return ("tiny",) if self.tiny else ("MiniLM-L6", "bge-large")

    @property
    def shape(self) -> str:
        """The model of a part that runs one."""
        return self.shapes[0]

    def settings(self, **own: object) -> dict[str, object]:
        """Return a worker's settings."""
        settings: dict[str, object] = {
            "device": self.device.type,
            "gpu_paths": ",".join(sorted(self.paths)) or "none",
            "log_level": "WARNING",
            "allow_local_models": True,
        }
        if self.num_threads is not None:
            settings["tokenizer_threads"] = self.num_threads
        return settings | own


@asynccontextmanager
async def running(asked: Asked, **own: object) -> AsyncIterator[Engine]:
    """Run an engine until the block ends."""
    # As the worker's program does, whose imports are garbage to nobody.
    gc.freeze()
    bound_shape_caches()
    share_interpreter()
    size_thread_pools(None)
    config = Config(cache_dir=asked.work / "cache", **asked.settings(**own))
    registry = Registry(load_catalogue(None), config.cache_dir, FetchOptions(offline=True))

    def make_loader(device: torch.device) -> CheckpointLoader:
        dtype = choose_dtype(config.dtype, device)
        return CheckpointLoader(registry, device, dtype, (), config.gpu_paths, config.cpu_backend)

    engine, lanes = build_engine(config, [asked.device], registry, make_loader)
    for lane in lanes.all:
        lane.thread.start()
    try:
        yield engine
    finally:
        await engine.aclose()


def requests(texts: Sequence[str], size: int) -> list[wire.EncodeRequest]:
    """Cut texts into requests of so many."""
    return [
        wire.EncodeRequest(items=[wire.Item(text=one) for one in texts[at : at + size]])
        for at in range(0, len(texts), size)
    ]


async def answered(
    engine: Engine, model: str, asked: Sequence[wire.EncodeRequest], at_once: int
) -> list[wire.Response]:
    """Send requests, so many at once; return answers in order."""
    answers: list[wire.Response | None] = [None] * len(asked)
    places = iter(range(len(asked)))

    async def client() -> None:
        for place in places:
            answers[place] = await engine.run(model, asked[place])

    await asyncio.gather(*(client() for _ in range(at_once)))
    return [one for one in answers if one is not None]


def vectors(answers: Sequence[wire.Response]) -> np.ndarray:
    """Return float32 `(num_texts, dims)`.

    Raises:
        RuntimeError: an item has no vector; says why.
    """
    rows = []
    for answer in answers:
        assert isinstance(answer, wire.EncodeResponse)
        for item in answer.items:
            if item.dense is None:
                raise RuntimeError(f"an item has no vector: {item.error}")
            rows.append(item.dense.values)
    return np.stack(rows)


def min_cosine(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the lowest cosine of rows."""
    sizes = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    return round(float(((found * expected).sum(1) / sizes).min()), 6)
