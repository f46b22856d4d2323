"""Texts to ids, thread-safe: the shared tokenizer never changes, truncation happens here.

Truncation keeps special tokens. Nothing here knows a model or a task.
"""

import itertools
import json
import string
from collections.abc import Sequence as Series
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Encoding, Tokenizer

from sie_mcp.adapters.ids_only import TokenIds, around, joined_ids, joined_pairs
from sie_mcp.adapters.pair_frame import PairFrame, longest_first, only_first, pair_frame
from sie_mcp.adapters.tokenizer_clip import read_clip_tokenizer
from sie_mcp.adapters.word_tokens import WordTokens
from sie_mcp.errors import ModelLoadFailed

# Words that one thread tokenises at a time.
_WORDS_A_PART = 256
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Tokens:
    """One tokenised text or pair.

    Attributes:
        ids: int64 `(num_tokens,)`, special tokens included.
        type_ids: int64 `(num_tokens,)`.
        offsets: Start and end of each token in the text, code points; (0, 0) for special tokens.
        words: Which word each token is a piece of; None for special tokens.
        truncated: Something was cut.
        num_cut: How many tokens that were.
    """

    ids: np.ndarray
    type_ids: np.ndarray
    offsets: list[tuple[int, int]]
    words: list[int | None]
    truncated: bool
    num_cut: int = 0


class TextTokenizer:
    """A checkpoint's tokenizer. Every method may run on several threads at once."""

    def __init__(
        self, tokenizer: Tokenizer, *, lower_case: bool = False, drops_punctuation: bool = False
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._lower_case = lower_case
        self._drops_punctuation = drops_punctuation
        self._num_added = (
            tokenizer.num_special_tokens_to_add(is_pair=False),
            tokenizer.num_special_tokens_to_add(is_pair=True),
        )
        self._around = around(tokenizer)
        self._before, self._after = self._around.before, self._around.after

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        lower_case: bool = False,
        drops_punctuation: bool = False,
        markers: Series[str] = (),
        added: Series[str] = (),
    ) -> "TextTokenizer":
        """Read tokenizer.json, or CLIP's older files; `markers` that it knows are kept whole.

        Tokens `added` that it does not know get the next ids, in order.

        Raises:
            ModelLoadFailed: missing or unreadable.
        """
        path = folder / "tokenizer.json"
        try:
            older = None if path.is_file() else read_clip_tokenizer(folder)
            tokenizer = Tokenizer.from_file(str(path)) if older is None else older
        # The library raises bare Exception for every kind of bad file.
        except Exception as error:
            raise ModelLoadFailed(f"{path.name} cannot be read: {error}") from error
        known = [marker for marker in markers if tokenizer.token_to_id(marker) is not None]
        tokenizer.add_special_tokens([AddedToken(marker, normalized=False) for marker in known])
        tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in added])
        return cls(tokenizer, lower_case=lower_case, drops_punctuation=drops_punctuation)

    @property
    def num_added(self) -> int:
        """How many special tokens a single text gets."""
        return self._num_added[0]

    @property
    def num_before(self) -> int:
        """How many special tokens stand before a single text."""
        return len(self._before)

    def with_special_tokens(self, ids: np.ndarray) -> np.ndarray:
        """Put a text's special tokens around ids that have none."""
        return np.concatenate([self._before, ids, self._after])

    def without_special_tokens(self, ids: list[int]) -> list[int]:
        """Leave out a text's special tokens where ids have them all."""
        before, after = self._before.tolist(), self._after.tolist()
        inner = ids[len(before) : len(ids) - len(after)]
        return inner if [*before, *inner, *after] == ids else ids

    def has(self, token_id: int) -> bool:
        """Whether there is a token of this id."""
        return 0 <= token_id < 2**31 and self._tokenizer.id_to_token(token_id) is not None

    def token(self, token_id: int) -> str:
        """Return a token as the vocabulary has it."""
        token = self._tokenizer.id_to_token(token_id)
        assert token is not None
        return token

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """Return the text of ids, all of which it has."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)
        return text

    @cached_property
    def pair_frame(self) -> PairFrame:
        """The special tokens around two texts that are read together."""
        return pair_frame(self._tokenizer)

    @property
    def vocabulary(self) -> dict[str, int]:
        """Every token and its id."""
        vocabulary: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        return vocabulary

    def id_of(self, token: str) -> int | None:
        """Return the id of a token by its exact text, without reading all of them."""
        found: int | None = self._tokenizer.token_to_id(token)
        return found

    def special_ids(self) -> set[int]:
        """Return the ids that stand around a text, and the unknown token's."""
        unknown = self.unknown_id()
        around = {int(one) for one in (*self._before, *self._after)}
        return around if unknown is None else around | {unknown}

    def unknown_id(self) -> int | None:
        """Return the id of the unknown token, where the tokenizer has one."""
        model = json.loads(self._tokenizer.to_str())["model"]
        token = model.get("unk_token")
        if token is None and model.get("unk_id") is not None:
            unk_id: int = model["unk_id"]
            return unk_id
        return None if token is None else self._tokenizer.token_to_id(token)

    def encode(
        self, texts: Series[str], max_length: int | None, *, special_tokens: bool = True
    ) -> list[Tokens]:
        """Tokenise texts, each cut to max_length tokens at its end."""
        room = _room(max_length, self._num_added[0] if special_tokens else 0)
        encodings = self._raw(texts)
        return [self._complete(one, room, special_tokens) for one in encodings]

    def encode_ids(
        self, texts: Series[str], max_length: int | None, *, special_tokens: bool = True
    ) -> list[TokenIds]:
        """Return the ids that `encode` gives, without offsets and words: many times faster."""
        if self._around.has_types:
            found = self.encode(texts, max_length, special_tokens=special_tokens)
            return [TokenIds(one.ids, one.type_ids, one.truncated, one.num_cut) for one in found]
        before, after = (self._before, self._after) if special_tokens else ((), ())
        room = _room(max_length, self._num_added[0] if special_tokens else 0)
        encodings = self._tokenizer.encode_batch_fast(self._read(texts), add_special_tokens=False)
        return list(joined_ids(encodings, list(map(int, before)), list(map(int, after)), room))

    def encode_pairs(
        self,
        first: str,
        seconds: Series[str],
        max_length: int | None,
        *,
        keep_seconds: bool = False,
    ) -> list[TokenIds]:
        """Tokenise one text with each of others, the longer of the two cut first.

        With `keep_seconds` only the first is cut; see `room_beside` for whether that is enough.
        """
        cut = only_first if keep_seconds else longest_first
        room = _room(max_length, self._num_added[1])
        ids, *others = (
            one.ids
            for one in self._tokenizer.encode_batch_fast(
                self._read([first, *seconds]), add_special_tokens=False
            )
        )
        kept = [cut(len(ids), len(other), room) for other in others]
        return list(joined_pairs(self.pair_frame, ids, others, kept))

    def room_beside(self, second: str, max_length: int | None) -> int | None:
        """Return how many tokens of a first text fit beside a second; None: no limit."""
        room = _room(max_length, self._num_added[1])
        return None if room is None else max(room - self.count(second), 0)

    def count(self, text: str) -> int:
        """Count the tokens of a text, without special tokens."""
        return len(self._raw([text])[0].ids)

    def pieces(self, words: Series[str]) -> list[list[int]]:
        """Return the ids of each word; see `read_words`."""
        return self.read_words([words])[0].pieces()

    def read_words(self, texts: Series[Series[str]]) -> list[WordTokens]:
        """Return the tokens of texts that come as words, all texts at once.

        Each word is tokenised as if a space stood before it or not, as the checkpoint's tokenizer
        reads a text that comes so: whatever stands beside it, which is why equal words are
        tokenised once.
        """
        words = list(itertools.chain.from_iterable(texts))
        places = {word: place for place, word in enumerate(dict.fromkeys(words))}
        unique = list(places)
        encodings = self._tokenizer.encode_batch(
            [
                unique[first : first + _WORDS_A_PART]
                for first in range(0, len(unique), _WORDS_A_PART)
            ],
            is_pretokenized=True,
            add_special_tokens=False,
        )
        parts = [
            WordTokens.of(one, min(len(unique) - first, _WORDS_A_PART))
            for one, first in zip(encodings, range(0, len(unique), _WORDS_A_PART), strict=True)
        ]
        which = np.fromiter(map(places.__getitem__, words), np.int64, len(words))
        return WordTokens.joined(parts).picked(which, [len(one) for one in texts])

    def alone(self, texts: Series[str]) -> list[list[int]]:
        """Return the ids of each text, none of them cut, without special tokens."""
        return [one.ids for one in self._raw(texts)] if texts else []

    def cut(self, text: str, max_tokens: int | None) -> str:
        """Return the text, or its beginning of that many tokens."""
        if max_tokens is None:
            return text
        offsets = self._raw([text])[0].offsets
        return text if len(offsets) <= max_tokens else text[: offsets[max_tokens - 1][1]]

    def num_leading(self, text: str) -> int:
        """Count the tokens of a text with the special tokens before it, but not those after."""
        return self.num_before + self.count(text)

    def _raw(self, texts: Series[str]) -> list[Encoding]:
        encodings: list[Encoding] = self._tokenizer.encode_batch(
            self._read(texts), add_special_tokens=False
        )
        return encodings

    def _read(self, texts: Series[str]) -> list[str]:
        """Return texts as the checkpoint reads them."""
        if self._lower_case:
            texts = [text.lower() for text in texts]
        if self._drops_punctuation:
            texts = [" ".join(text.translate(_NO_PUNCTUATION).split()) for text in texts]
        return list(texts)

    def _complete(self, whole: Encoding, keep: int | None, special_tokens: bool) -> Tokens:
        num_cut = _cut(whole, keep)
        if special_tokens:
            whole = self._tokenizer.post_process(whole, add_special_tokens=True)
        return Tokens(
            ids=np.array(whole.ids, dtype=np.int64),
            type_ids=np.array(whole.type_ids, dtype=np.int64),
            offsets=whole.offsets,
            words=whole.word_ids,
            truncated=num_cut > 0,
            num_cut=num_cut,
        )


def _room(max_length: int | None, num_added: int) -> int | None:
    return None if max_length is None else max(max_length - num_added, 0)


def _cut(encoding: Encoding, keep: int | None) -> int:
    """Cut to `keep` tokens; return how many were cut off."""
    if keep is None or len(encoding.ids) <= keep:
        return 0
    num_cut = len(encoding.ids) - keep
    encoding.truncate(keep)
    return num_cut
