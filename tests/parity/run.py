"""Running an adapter without an engine: prepare, one packed batch, finish."""

from pathlib import Path
from typing import Any

import torch

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter, SequenceOutput
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.catalogue.entries import Entry

CPU = torch.device("cpu")


def load(folder: Path, entry: Entry | None = None) -> Adapter:
    """Load a checkpoint in float32 on the CPU."""
    recipe = create.read_recipe(folder.name, folder, entry)
    return create.load_adapter(recipe, device=CPU, dtype=torch.float32)


def run(adapter: Adapter, request: wire.Request) -> tuple[Any, list[SequenceOutput]]:
    """Run a request as one batch; return the response and the raw outputs."""
    prepared = adapter.prepare(request)
    outputs: list[SequenceOutput] = []
    if prepared.sequences:
        with torch.inference_mode():
            batch = pack(prepared.sequences, CPU)
            outputs = unpack(adapter.forward(batch), len(prepared.sequences))
    return adapter.finish(request, prepared, list(outputs)), outputs
