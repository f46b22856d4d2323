"""All numbers that a model gives for its own check, in one short text."""

import hashlib

import torch

from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.self_check import answers


def digest(adapter: Adapter) -> str:
    """Return a text that is another one if a single bit is."""
    outputs = answers(adapter, torch.device("cpu"))
    parts = [name.encode() + one[name].tobytes() for one in outputs for name in sorted(one)]
    return hashlib.sha256(b"".join(parts)).hexdigest()
