"""What a checkpoint is, decided once from its files: the recipe that joins architecture and tasks.

Data only. `decisions` keeps, for every choice, the value and the file it came from, so that a user
can see why a number is what it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sie_mcp.adapters.gliner.rule import GlinerRule
from sie_mcp.adapters.glirel.rule import ADDED, GlirelRule
from sie_mcp.adapters.image_rule import ImageRule
from sie_mcp.catalogue.entries import INSTRUCTION, Profile, Task

PoolingMode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
Similarity = Literal["cosine", "dot", "euclidean", "manhattan", "maxsim", "meanmaxsim"]
ProjectionInput = Literal["sentence_embedding", "token_embeddings", "token_weights", "keep_logits"]
ScoreActivation = Literal["identity", "sigmoid", "softmax"]


@dataclass(frozen=True, slots=True)
class Projection:
    """A Dense module: y = activation(W x + b) [+ residual]. `folder` holds its weights.

    `input_name` says what it projects: the pooled vector, every token vector, or every token vector
    to its weight as a word, or to whether it is kept. `file` names its file where that is not one
    of a whole checkpoint; `stored_as` what the file calls its linear layer. `is_norm`: it is a
    LayerNorm instead.
    """

    folder: Path
    in_features: int
    out_features: int
    has_bias: bool
    activation: str
    input_name: ProjectionInput = "sentence_embedding"
    has_residual: bool = False
    file: str = ""
    stored_as: str = "linear."
    is_norm: bool = False


@dataclass(frozen=True, slots=True)
class MultivectorRule:
    """How token vectors are made: marker tokens, lengths, query expansion, which tokens count.

    Shorter queries are filled up to `expand_queries_to` tokens with `expansion_token` ("": the
    tokenizer's mask token). `drops_first`: the first token counts for nothing (BGE-M3).
    """

    query_length: int | None = None
    document_length: int | None = None
    expand_queries_to: int = 0
    expansion_token: str = ""
    attend_to_expansion: bool = False
    skiplist_words: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    drops_first: bool = False


@dataclass(frozen=True, slots=True)
class FeatureRule:
    """What the text tower of a two-tower model reads, and how wide a vector its head makes.

    Texts are filled up to `pads_to` tokens with `padding_token`; 0: they are not, and end at their
    first end-of-text token. `end_id` is that token's id by config.json; None: the file was written
    before that id was right.
    """

    size: int
    pads_to: int = 0
    padding_token: str = ""
    end_id: int | None = None


@dataclass(frozen=True, slots=True)
class LogitScore:
    """A score read from a language model's next word: one word's logit, or its lead over another's.

    `form` is a key of `score_forms.FORMS`, or "chat": the checkpoint's own template, whose keyword
    arguments are `template_options`. Logits are bent towards `softcap` and divided by `divisor`.
    """

    true_id: int
    false_id: int | None = None
    form: str = "pair"
    instruction: str = ""
    divisor: float = 1.0
    softcap: float | None = None
    template: str = ""
    template_options: Mapping[str, Any] = field(default_factory=dict)
    is_structured: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything needed to build an adapter.

    Attributes:
        name: What the caller asked for.
        folder: Where the files lie.
        architecture: A key of `models.ARCHITECTURES`, e.g. "bert", "static"; or "transformers".
        tensor_prefix: What stands before the names of all tensors but those of an added head.
        runs_own_code: The checkpoint brings its own code, and may run it.
        tasks: What the model can do, the first being what it is made for.
        drops_punctuation: Tokens are made without punctuation, and of single spaces.
        max_length: Most tokens of one sequence, special tokens included; None is no limit.
        prompts: Prompt name -> text put in front, e.g. {"query": "query: "}.
        instruction_template: What makes a prompt of a caller's instruction.
        features: How a two-tower model makes a text's vector; None: it is no such model.
        images: What becomes of an image; None: images are not served.
        vision_config: Settings of the tower for images, defaults included.
        is_each_alone: A text matches an image by a probability of its own.
        pooling: Modes concatenated in this order; empty where no task pools.
        query_weights: Folder or file of the weights that make a query's sparse vector without the
            model.
        weighs_tokens: A sparse vector weighs the text's own tokens, no others (BGE-M3).
        score_weights: Output -> its part in a score, where several outputs make it.
        reads_tokens: A cross-encoder's head reads every token; its logits are averaged.
        score_activation: From logit to score, for cross-encoders and classifiers.
        labels: Names of the classification head's outputs, in order.
        entailment_label: Which output says that a pair's second text follows from its first.
        contradiction_label: Which says that it cannot be true.
        score_label: Which one's score is the score of a pair; None: the caller has to say.
        loras: Low-rank adapters in the checkpoint's own tensors, in the order in which these stack
            them -> text put in front of an item that is read with one.
        profiles: Name -> from which probability on a pruner keeps a unit, and highlights it.
        unit: What a pruner judges.
        gliner: How words and labels meet; None: it is no GLiNER.
        glirel: How pairs and relations meet; None: it is no GLiREL.
        tokenizer_folder: Where its tokenizer lies, if not in `folder`.
        reads_before_norm: A pruning head reads hidden states before the encoder's last norm.
    """

    name: str
    folder: Path
    architecture: str
    config: Mapping[str, Any]
    tasks: tuple[Task, ...]
    max_length: int | None
    runs_own_code: bool = False
    tensor_prefix: str = ""
    do_lower_case: bool = False
    drops_punctuation: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    instruction_template: str = INSTRUCTION
    include_prompt: bool = True
    features: FeatureRule | None = None
    images: ImageRule | None = None
    vision_config: Mapping[str, Any] = field(default_factory=dict)
    is_each_alone: bool = False
    pooling: tuple[PoolingMode, ...] = ()
    projections: tuple[Projection, ...] = ()
    normalize: bool = False
    similarity: Similarity = "cosine"
    truncate_dim: int | None = None
    sparse_pooling: Literal["max", "sum"] = "max"
    sparse_activation: Literal["relu", "log1p_relu"] = "relu"
    weighs_tokens: bool = False
    query_weights: Path | None = None
    score_weights: Mapping[str, float] = field(default_factory=dict)
    multivector: MultivectorRule = MultivectorRule()
    reads_tokens: bool = False
    score_activation: ScoreActivation = "identity"
    logit_score: LogitScore | None = None
    labels: tuple[str, ...] = ()
    entailment_label: int | None = None
    contradiction_label: int | None = None
    score_label: int | None = None
    loras: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    unit: Literal["token", "sentence"] = "token"
    reads_before_norm: bool = False
    gliner: GlinerRule | None = None
    glirel: GlirelRule | None = None
    tokenizer_folder: Path | None = None
    licence: str = ""
    description: str = ""
    decisions: Mapping[str, str] = field(default_factory=dict)

    @property
    def added_tokens(self) -> tuple[str, ...]:
        """Tokens that its tokenizer gets where it lacks them, in order."""
        if self.glirel is not None:
            return ADDED
        return () if self.gliner is None else self.gliner.added_tokens

    @property
    def pooled_size(self) -> int:
        """Width of the vector that projections of pooled vectors begin with."""
        if self.features is not None:
            return self.features.size
        return int(self.config["hidden_size"]) * len(self.pooling)

    @property
    def head_tasks(self) -> tuple[Task, ...]:
        """The tasks whose head is the architecture's own."""
        others = {"sparse"} if self.weighs_tokens else set()
        if self.logit_score is not None:
            others.add("cross_encoder")
        return tuple(task for task in self.tasks if task not in others)
