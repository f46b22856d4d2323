"""Encoding without an engine, in batches as its device thread makes them; imports no peer."""

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter, Result
from sie_mcp.adapters.packing import pack, unpack

# What the engine has on a CPU.
MAX_BATCH_TOKENS = 4_096
MAX_BATCH_SEQUENCES = 512
CPU = torch.device("cpu")


def encode(adapter: Adapter, texts: list[str]) -> np.ndarray:
    """Encode as the device thread does: batches by tokens, longest sequences side by side."""
    request = wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])
    prepared = adapter.prepare(request)
    sequences = prepared.sequences
    order = sorted(range(len(sequences)), key=lambda one: -sequences[one].num_tokens)
    results: list[Result] = [{} for _ in sequences]
    while order:
        batch: list[int] = []
        used = 0
        while order and len(batch) < MAX_BATCH_SEQUENCES:
            if batch and used + sequences[order[0]].num_tokens > MAX_BATCH_TOKENS:
                break
            batch.append(order.pop(0))
            used += sequences[batch[-1]].num_tokens
        with torch.inference_mode():
            outputs = adapter.forward(pack([sequences[one] for one in batch], CPU))
        for place, output in zip(batch, unpack(outputs, len(batch)), strict=True):
            results[place] = output
    response = adapter.finish(request, prepared, results)
    assert isinstance(response, wire.EncodeResponse)
    return np.stack([item.dense.values for item in response.items if item.dense])
