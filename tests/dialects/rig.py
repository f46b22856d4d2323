"""The real worker with tiny checkpoints of each kind, and a gateway before it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import torch
from transformers import BertForSequenceClassification, BertForTokenClassification

from sie_mcp.catalogue.entries import Catalogue, Entry, Source, Task
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.config import Config
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.main import build_worker
from sie_mcp.engine.registry import Registry
from sie_mcp.gateway.app import build_app
from tests.adapters.test_m3 import save_m3
from tests.servers import serving
from tests.tiny import bert_config, save_model, write_json

KINDS: dict[str, tuple[Task, ...]] = {
    "m3": ("dense", "sparse", "multivector"),
    "ce": ("cross_encoder",),
    "nli": ("classification",),
    "ner": ("token_classification",),
}
PROMPTS = {"prompts": {"query": "morning ", "document": "river stone "}}


def save_all(folder: Path) -> Catalogue:
    """Write the checkpoints; return the catalogue that names them."""
    save_m3(folder / "m3")
    write_json(folder / "m3", "config_sentence_transformers.json", PROMPTS)
    labels = {0: "O", 1: "B-PER", 2: "I-PER"}
    heads = {
        "ce": BertForSequenceClassification(bert_config(num_labels=1)),
        "nli": BertForSequenceClassification(bert_config(num_labels=3)),
        "ner": BertForTokenClassification(bert_config(id2label=labels)),
    }
    for name, model in heads.items():
        (folder / name).mkdir()
        save_model(folder / name, model)
    entries = tuple(
        Entry(
            name=name,
            tasks=tasks,
            description="Tiny.",
            sources=(Source(kind="path", path=str(folder / name)),),
        )
        for name, tasks in KINDS.items()
    )
    defaults = {"encode": ("m3",), "score": ("ce",), "extract": ("nli",)}
    return Catalogue(models=entries, defaults=defaults)


@asynccontextmanager
async def worker(folder: Path, catalogue: Catalogue, **settings: object) -> AsyncIterator[str]:
    """Serve on a socket; yield the URL."""
    own = {"cache_dir": folder / "cache", "offline": True, "device": "cpu"}
    config = Config(**(own | settings))
    registry = Registry(catalogue, config.cache_dir, FetchOptions(offline=True))

    def load(device: torch.device) -> CheckpointLoader:
        return CheckpointLoader(registry, device, torch.float32)

    made = build_worker(config, [torch.device("cpu")], registry, load)
    async with serving(made.app) as url:
        yield url


@asynccontextmanager
async def gateway(worker_url: str, **settings: object) -> AsyncIterator[str]:
    """Serve a gateway in front of a worker; yield its URL."""
    app = build_app(Config(worker_url=worker_url, **settings), files_allowed=False)
    async with serving(app) as url:
        yield url


@asynccontextmanager
async def both(folder: Path, catalogue: Catalogue) -> AsyncIterator[list[httpx2.AsyncClient]]:
    """Yield clients of a worker, and of a gateway in front of it."""
    async with (
        worker(folder, catalogue) as worker_url,
        gateway(worker_url) as gateway_url,
        httpx2.AsyncClient(base_url=worker_url, timeout=60) as direct,
        httpx2.AsyncClient(base_url=gateway_url, timeout=60) as through,
    ):
        yield [direct, through]
