"""What stands around a text's words: a prompt with the labels, or for two encoders nothing.

A label's place in the prompt is known by construction, so that no text or label can pass for one.
"""

from dataclasses import dataclass

import numpy as np

from sie_mcp.adapters.gliner.rule import GlinerRule
from sie_mcp.adapters.label_prompts import deal_labels
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed


@dataclass(frozen=True, slots=True)
class Prompt:
    """Some of a request's labels, as they are read.

    Attributes:
        places: Which of the request's labels these are.
        ids: The tokens in front of a text.
        markers: Where in `ids` each label is read.
        labels: The labels' texts and tokens, where a second encoder reads them.
    """

    places: range
    ids: list[int]
    markers: tuple[int, ...] = ()
    labels: tuple[tuple[str, np.ndarray], ...] = ()


class PromptMaker:
    """Makes prompts of labels.

    Args:
        name: Of the model, for errors.
        rule: What a prompt looks like.
        tokenizer: Of texts.
        max_tokens: Most tokens of a prompt.
        label_tokenizer: Of the second encoder.

    Raises:
        ModelLoadFailed: the tokenizer does not know the marker, or by another id.
    """

    def __init__(
        self,
        name: str,
        rule: GlinerRule,
        tokenizer: TextTokenizer,
        max_tokens: int,
        label_tokenizer: TextTokenizer | None,
    ) -> None:
        self._name, self._rule, self._max_tokens = name, rule, max_tokens
        self._tokenizer, self._label_tokenizer = tokenizer, label_tokenizer
        self._marker: list[int] = []
        self._end: list[int] = []
        if label_tokenizer is None:
            self._marker, self._end = tokenizer.pieces([rule.ent_token, rule.sep_token])
            self._check_marker()

    def prompts(self, labels: list[str]) -> list[Prompt]:
        """Return the prompts that hold the labels, in order.

        Raises:
            InputTooLong: a label that fills a prompt alone.
            InvalidInput: a label of which the tokenizer makes nothing.
        """
        if self._label_tokenizer is not None:
            return self._for_two_encoders(self._label_tokenizer, labels)
        pieces = [self._marker + ids for ids in self._pieces(labels)]
        room = self._max_tokens - len(self._end)
        for label, ids in zip(labels, pieces, strict=True):
            self._check_length(label, len(ids), room)
        dealt = deal_labels(
            [len(ids) for ids in pieces], max_labels=self._rule.max_labels, max_tokens=room
        )
        return [self._prompt(places, pieces) for places in dealt]

    def _prompt(self, places: range, pieces: list[list[int]]) -> Prompt:
        ids: list[int] = []
        markers = []
        # The marker is one token; what follows it is the label's first.
        shift = 0 if self._rule.reads_marker else 1
        for place in places:
            markers.append(len(ids) + shift)
            ids += pieces[place]
        return Prompt(places, ids + self._end, tuple(markers))

    def _for_two_encoders(self, tokenizer: TextTokenizer, labels: list[str]) -> list[Prompt]:
        assert self._rule.label_encoder is not None
        limit = self._rule.label_encoder.max_length
        tokens = tokenizer.encode(labels, limit)
        for label, one in zip(labels, tokens, strict=True):
            if one.truncated:
                self._check_length(label, len(one.ids) + one.num_cut, len(one.ids))
        dealt = deal_labels([1] * len(labels), max_labels=self._rule.max_labels, max_tokens=2**31)
        return [
            Prompt(places, [], labels=tuple((labels[one], tokens[one].ids) for one in places))
            for places in dealt
        ]

    def _pieces(self, labels: list[str]) -> list[list[int]]:
        pieces = self._tokenizer.pieces(labels)
        for label, ids in zip(labels, pieces, strict=True):
            if not ids:
                raise InvalidInput(f"label {label!r} has nothing that {self._name} can read")
        return pieces

    def _check_length(self, label: str, num_tokens: int, room: int) -> None:
        if num_tokens > room:
            shown = label if len(label) <= 60 else f"{label[:60]}…"
            raise InputTooLong(
                f"label {shown!r} has {num_tokens} tokens; {self._name} reads labels of at most "
                f"{room}; shorten it"
            )

    def _check_marker(self) -> None:
        wanted = self._rule.class_id
        if len(self._marker) != 1 or wanted not in (None, self._marker[0]):
            raise ModelLoadFailed(
                f"{self._name}: gliner_config.json says class_token_index {wanted}, its tokenizer "
                f"reads ent_token {self._rule.ent_token!r} as {self._marker}"
            )
