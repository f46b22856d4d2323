"""The row of the table that a GLiREL checkpoint is loaded by: its encoder's, and the head on it."""

from dataclasses import replace
from functools import partial

from torch import nn

from sie_mcp.adapters.glirel.head import GlirelHead
from sie_mcp.adapters.glirel.rule import GlirelRule
from sie_mcp.adapters.model import Architecture, Config, Head, Renames
from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.catalogue.entries import Task

TASK: Task = "glirel"

_RENAMES: Renames = (
    (r"token_rep_layer\.projection\.(.*)", r"projection.\1"),
    (r"rnn\.lstm\.(.*)", r"rnn.\1"),
    (r"span_rep_layer\.rel_rep_layer\.span_marker\.(.*)", r"entities.\1"),
    (r"span_rep_layer\.rel_rep_layer\.out_project\.(.*)", r"pairs.\1"),
    (r"prompt_rep_layer\.(.*)", r"labels.\1"),
    (r"(refine_\w+\.blocks\.\d+)\.read\.mha\.in_proj_(.*)", r"\1.joint.\2"),
    (r"(refine_\w+\.blocks\.\d+)\.read\.mha\.out_proj\.(.*)", r"\1.out_proj.\2"),
    (r"(refine_\w+\.(?!blocks\.\d+\.read).*)", r"\1"),
    (r"scorer\.(.*)", r"scorer.\1"),
)
# Which entities are one and the same: the reference trains it and leaves it out of its answers.
_UNUSED = (r"coref_classifier\..*",)


def glirel_row(architecture: str, rule: GlirelRule) -> Architecture:
    """Return the encoder's row with GLiREL's head as the one on it."""
    row = ARCHITECTURES[architecture]
    head = Head(build=partial(_build, rule), renames=_RENAMES)
    return replace(row, heads={TASK: head}, ignored=(*row.ignored, *_UNUSED))


def _build(rule: GlirelRule, config: Config, _: int) -> nn.Module:
    return GlirelHead(rule, config["hidden_size"])
