"""What a GLiREL checkpoint computes on top of its encoder, as data. Reads no file."""

from dataclasses import dataclass
from typing import Literal

SpanMode = Literal["markerv1", "markerv2"]
LabelRead = Literal["ent_token", "label", "both"]
Scorer = Literal["dot", "dot_thresh", "dot_norm"]
WordPooling = Literal["first", "last"]

# What stands before each relation, after the last one, and around an entity.
RELATION, END, FIRST, LAST = "[REL]", "[SEP]", "[E]", "[/E]"
# The reference adds these to the tokenizer, in this order, where it lacks them.
ADDED = ("[FLERT]", RELATION, END, FIRST, LAST)


@dataclass(frozen=True, slots=True)
class GlirelRule:
    """How pairs of entities and relations meet.

    Attributes:
        hidden_size: Of words and relations, after the projection where the encoder's is another.
        max_words: Most words that are read at once.
        pooling: Which token represents a word of several.
        span_mode: An entity's vector is made of its first and last word, or the mean of all.
        label_read: A relation is read at its mark, at its name, or as the mean of both.
        scorer: How a pair and a relation make a score.
        marks_entities: Tokens stand around the entities.
        max_distance: Words between the starts of two entities of which the later is the head.
        refines_pairs: Pairs look at the words once more.
        refines_labels: Relations pass two more layers.
        ffn_mul: How much wider these layers are inside.
    """

    hidden_size: int
    max_words: int
    pooling: WordPooling
    span_mode: SpanMode
    label_read: LabelRead
    scorer: Scorer
    marks_entities: bool
    max_distance: int | None
    refines_pairs: bool
    refines_labels: bool
    ffn_mul: int
