"""What stands around a text's words: a prompt with the labels, or for two encoders nothing.

A label's place in the prompt is known by construction, so that no text or label can pass for one.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

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
        ids: int64 `(num_tokens,)`, the tokens in front of a text.
        markers: Where in `ids` each label is read.
        labels: The labels' texts and tokens, where a second encoder reads them.
        relations: Where in `ids` each relation is read.
    """

    places: range
    ids: np.ndarray
    markers: tuple[int, ...] = ()
    labels: tuple[tuple[str, np.ndarray], ...] = ()
    relations: tuple[int, ...] = ()


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
            self._check_marker("class", rule.ent_token, rule.class_id)
        self._link: list[int] = []
        if rule.relations is not None:
            self._link = tokenizer.pieces([rule.relations.token])[0]
            self._check_marker("rel", rule.relations.token, rule.relations.token_id)

    def prompts(self, labels: list[str], relations: list[str]) -> list[Prompt]:
        """Return the prompts that hold the labels, in order; relations stand in the only one.

        Raises:
            InputTooLong: a label that fills a prompt alone, or more than one holds with relations.
            InvalidInput: a label of which the tokenizer makes nothing.
        """
        if self._label_tokenizer is not None:
            return self._for_two_encoders(self._label_tokenizer, labels)
        pieces = [self._marker + ids for ids in self._pieces(labels)]
        links = [self._link + ids for ids in self._pieces(relations)]
        end = self._end_of(links)
        room = self._max_tokens - len(end)
        for label, ids in zip(labels, pieces, strict=True):
            self._check_length(label, len(ids), room)
        dealt = deal_labels(
            [len(ids) for ids in pieces], max_labels=self._rule.max_labels, max_tokens=room
        )
        if relations and len(dealt) > 1:
            raise InputTooLong(
                f"{len(labels)} entities and {len(relations)} relations do not fit together; "
                f"{self._name} reads {self._rule.max_labels} entities, and {self._max_tokens} "
                "tokens of both; ask for less at once"
            )
        return [self._prompt(places, pieces, end, links) for places in dealt]

    def _end_of(self, links: list[list[int]]) -> list[int]:
        """Return what stands between labels and text."""
        if self._rule.relations is None:
            return self._end
        return [*self._end, *(one for link in links for one in link), *self._end]

    def _prompt(
        self, places: range, pieces: list[list[int]], end: list[int], links: list[list[int]]
    ) -> Prompt:
        ids: list[int] = []
        markers = []
        # The marker is one token; what follows it is the label's first.
        shift = 0 if self._rule.reads_marker else 1
        for place in places:
            markers.append(len(ids) + shift)
            ids += pieces[place]
        first = len(ids) + len(self._end)
        if self._rule.relations is not None and not self._rule.relations.reads_marker:
            first += 1
        sizes = [len(link) for link in links]
        relations = (first + before for before in accumulate(sizes[:-1], initial=0))
        return Prompt(
            places, _array(ids + end), tuple(markers), relations=tuple(relations) if links else ()
        )

    def _for_two_encoders(self, tokenizer: TextTokenizer, labels: list[str]) -> list[Prompt]:
        assert self._rule.label_encoder is not None
        limit = self._rule.label_encoder.max_length
        tokens = tokenizer.encode(labels, limit)
        for label, one in zip(labels, tokens, strict=True):
            if one.truncated:
                self._check_length(label, len(one.ids) + one.num_cut, len(one.ids))
        dealt = deal_labels([1] * len(labels), max_labels=self._rule.max_labels, max_tokens=2**31)
        return [
            Prompt(
                places, _array([]), labels=tuple((labels[one], tokens[one].ids) for one in places)
            )
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

    def _check_marker(self, kind: Literal["class", "rel"], token: str, wanted: int | None) -> None:
        found = self._marker if kind == "class" else self._link
        if len(found) != 1 or wanted not in (None, found[0]):
            name = "ent_token" if kind == "class" else "rel_token"
            raise ModelLoadFailed(
                f"{self._name}: gliner_config.json says {kind}_token_index {wanted}, its tokenizer "
                f"reads {name} {token!r} as {found}"
            )


def _array(ids: list[int]) -> np.ndarray:
    return np.array(ids, dtype=np.int64)
