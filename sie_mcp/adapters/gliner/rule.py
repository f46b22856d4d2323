"""What a GLiNER checkpoint computes on top of its encoder, as data. Reads no file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

SpanMode = Literal["marker", "markerV0", "markerV1", "token_level"]
SubtokenPooling = Literal["first", "last", "mean", "max"]
Adjacency = Literal["none", "dot", "mlp", "bilinear", "gcn", "gat"]
Triple = Literal["DistMult", "DistMA", "ComplEx"]


@dataclass(frozen=True, slots=True)
class LabelEncoder:
    """The second encoder of a bi-encoder, which reads labels alone.

    `max_length` is the most tokens of a label, special ones included; `tokenizer_folder` holds its
    tokenizer.json.
    """

    architecture: str
    config: Mapping[str, Any]
    max_length: int | None
    tokenizer_folder: Path


@dataclass(frozen=True, slots=True)
class RelationRule:
    """How entities are linked.

    Attributes:
        token: What stands before each relation of the prompt, and represents it.
        token_id: The id that `token` must have; None: it is added to the tokenizer.
        reads_marker: A relation is represented by `token`, not by the token after it.
        adjacency: What says which entities are worth a look as a pair; "none": all pairs are.
        triple: A formula of head, relation and tail; None: a layer reads head and tail.
    """

    token: str
    token_id: int | None
    reads_marker: bool
    adjacency: Adjacency
    triple: Triple | None


@dataclass(frozen=True, slots=True)
class GlinerRule:
    """How words and labels meet.

    Attributes:
        hidden_size: Of words and labels, after the projection where the encoder's is another.
        span_mode: How a span's vector is made of its words; "token_level": spans have none, and
            each word is judged as start, end and inside of an entity.
        max_width: Most words of a span; without limit where spans have no vector.
        max_words: Most words that are read at once.
        max_labels: Most labels that stand in one prompt.
        ent_token: What stands before each label of the prompt, and represents it.
        sep_token: What ends the prompt.
        class_id: The id that `ent_token` must have; None: it is added to the tokenizer.
        added_tokens: To add to the tokenizer, in this order.
        reads_marker: A label is represented by `ent_token`, not by the token after it.
        subtoken_pooling: What represents a word of several tokens.
        num_rnn_layers: Of the LSTM over words; 0: there is none.
        label_encoder: None: labels stand in front of the text.
        relations: None: it finds entities alone.
    """

    hidden_size: int
    span_mode: SpanMode
    max_width: int
    max_words: int
    max_labels: int
    ent_token: str
    sep_token: str
    class_id: int | None
    added_tokens: tuple[str, ...]
    reads_marker: bool
    subtoken_pooling: SubtokenPooling
    num_rnn_layers: int
    label_encoder: LabelEncoder | None = None
    relations: RelationRule | None = None

    @property
    def is_token_level(self) -> bool:
        """Whether words are judged, not spans."""
        return self.span_mode == "token_level"

    @property
    def overlap(self) -> int:
        """Words that a window repeats of the one before: more than the widest span has."""
        return max(self.max_width, self.max_words // 8) + 1
