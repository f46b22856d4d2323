"""Heads that stand on any encoder of ours, by task: they belong to a family of checkpoints."""

from collections.abc import Mapping

from sie_mcp.adapters.gliner2 import head as gliner2
from sie_mcp.adapters.model import Head
from sie_mcp.adapters.models import gliclass

HEADS: Mapping[str, Head] = {"zero_shot": gliclass.HEAD, "structure": gliner2.HEAD}
