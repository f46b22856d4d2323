"""What a checkpoint is, decided once from its files: the recipe that joins architecture and tasks.

Data only. `decisions` keeps, for every choice, the value and the file it came from, so that a user
can see why a number is what it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sie_mcp.catalogue.entries import Task

PoolingMode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
Similarity = Literal["cosine", "dot", "euclidean", "manhattan", "maxsim", "meanmaxsim"]
ScoreActivation = Literal["identity", "sigmoid", "softmax"]


@dataclass(frozen=True, slots=True)
class Projection:
    """A Dense module: y = activation(W x + b) [+ residual]. `folder` holds its weights.

    `input_name` says what it projects: the pooled vector or every token vector.
    """

    folder: Path
    in_features: int
    out_features: int
    has_bias: bool
    activation: str
    input_name: Literal["sentence_embedding", "token_embeddings"] = "sentence_embedding"
    has_residual: bool = False


@dataclass(frozen=True, slots=True)
class MultivectorRule:
    """How token vectors are made: marker tokens, lengths, query expansion, which tokens count.

    Shorter queries are filled up to `expand_queries_to` tokens with `expansion_token` ("": the
    tokenizer's mask token).
    """

    query_length: int | None = None
    document_length: int | None = None
    expand_queries_to: int = 0
    expansion_token: str = ""
    attend_to_expansion: bool = False
    skiplist_words: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything needed to build an adapter.

    Attributes:
        name: What the caller asked for.
        folder: Where the files lie.
        architecture: A key of `models.ARCHITECTURES`, e.g. "bert", "static".
        tasks: What the model can do, the first being what it is made for.
        max_length: Most tokens of one sequence, special tokens included; None is no limit.
        prompts: Prompt name -> text put in front, e.g. {"query": "query: "}.
        pooling: Modes concatenated in this order; empty where no task pools.
        reads_tokens: A cross-encoder's head reads every token; its logits are averaged.
        score_activation: From logit to score, for cross-encoders and classifiers.
        labels: Names of the classification head's outputs, in order.
    """

    name: str
    folder: Path
    architecture: str
    config: Mapping[str, Any]
    tasks: tuple[Task, ...]
    max_length: int | None
    do_lower_case: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    include_prompt: bool = True
    pooling: tuple[PoolingMode, ...] = ()
    projections: tuple[Projection, ...] = ()
    normalize: bool = False
    similarity: Similarity = "cosine"
    truncate_dim: int | None = None
    sparse_pooling: Literal["max", "sum"] = "max"
    sparse_activation: Literal["relu", "log1p_relu"] = "relu"
    multivector: MultivectorRule = MultivectorRule()
    reads_tokens: bool = False
    score_activation: ScoreActivation = "identity"
    labels: tuple[str, ...] = ()
    licence: str = ""
    description: str = ""
    decisions: Mapping[str, str] = field(default_factory=dict)
