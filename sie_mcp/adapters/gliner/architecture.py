"""The row of the table that a GLiNER checkpoint is loaded by: its encoder's, and the head on it."""

import re
from dataclasses import replace
from functools import partial

from torch import nn

from sie_mcp.adapters.gliner.head import GlinerHead
from sie_mcp.adapters.gliner.rule import GlinerRule
from sie_mcp.adapters.model import Architecture, Config, Head, Renames
from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.catalogue.entries import Task

TASK: Task = "gliner"
# What stands before the encoder's own tensors.
ENCODER = "token_rep_layer.bert_layer.model."
LABEL_ENCODER = "token_rep_layer.labels_encoder.model."

_RENAMES: Renames = (
    (r"token_rep_layer\.(projection|labels_projection)\.(.*)", r"\1.\2"),
    (r"rnn\.lstm\.(.*)", r"rnn.\1"),
    (r"span_rep_layer\.span_rep_layer\.(?!project_first)(.*)", r"spans.\1"),
    (r"prompt_rep_layer\.(.*)", r"labels.\1"),
    (r"scorer\.(.*)", r"scorer.\1"),
    (r"pair_rep_layer\.(.*)", r"relations.pair.\1"),
    (r"relations_rep_layer\.relation_rep_layer\.attn\.in_proj_(.*)", r"relations.links.joint.\1"),
    (r"relations_rep_layer\.relation_rep_layer\.attn\.(.*)", r"relations.links.\1"),
    (r"relations_rep_layer\.relation_rep_layer\.gcn\.(.*)", r"relations.links.\1"),
    (r"relations_rep_layer\.relation_rep_layer\.(?!attn|gcn)(.*)", r"relations.links.\1"),
)
# The reference builds these and does not run them: one in uni-encoders, the other in markerV1.
_UNUSED = (r"cross_fuser\..*", r"span_rep_layer\.span_rep_layer\.project_first\..*")


_WORD_TABLE = re.compile(
    r".*\.(word_embeddings|tok_embeddings|embed_tokens|shared|token_embedding|wte)\.weight"
)


def table_names(tensor: str) -> bool:
    """Whether this is what some family calls its table of word vectors."""
    return _WORD_TABLE.fullmatch(tensor) is not None


def architecture_of(architecture: str, rule: GlinerRule) -> Architecture:
    """Return the encoder's row with GLiNER's head as the one on it."""
    row = ARCHITECTURES[architecture]
    renames, ignored = _RENAMES, (*row.ignored, *_UNUSED)
    if rule.num_rnn_layers == 0:
        ignored += (r"rnn\..*",)  # Bi-encoders have one that the reference does not run.
        renames = tuple(one for one in renames if not one[0].startswith("rnn"))
    if rule.label_encoder is not None:
        other = ARCHITECTURES[rule.label_encoder.architecture]
        before = _before_names(other)
        renames += tuple(
            (before + pattern, f"labels_encoder.{ours}") for pattern, ours in other.renames
        )
        ignored += tuple(before + pattern for pattern in other.ignored)
    head = Head(build=partial(_build, rule), renames=renames)
    return replace(row, heads={TASK: head}, ignored=ignored)


def _build(rule: GlinerRule, config: Config, _: int) -> nn.Module:
    own = rule.label_encoder
    if own is None:
        return GlinerHead(rule, config["hidden_size"], None)
    encoder = ARCHITECTURES[own.architecture].build(own.config)
    return GlinerHead(rule, config["hidden_size"], (encoder, own.config["hidden_size"]))


def _before_names(row: Architecture) -> str:
    """Return what stands before the second encoder's tensors, without a group of its own."""
    prefixes = "|".join(re.escape(one) for one in row.prefixes)
    return rf"{re.escape(LABEL_ENCODER)}(?:{prefixes})?"
