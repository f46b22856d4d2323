"""From query and documents to the ids a language model is asked with, in any of the forms."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.recipe import LogitScore
from sie_mcp.adapters.score_forms import FORMS, Form
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InputTooLong

# A query takes at most this share of the limit, so that some of a document is always read.
QUERY_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: ids int64 `(num_tokens,)`, and whether its document was cut."""

    ids: np.ndarray
    truncated: bool


class Prompt(Protocol):
    """A way of asking."""

    def ask(
        self, query: str, instruction: str, documents: Sequence[str], limit: int | None
    ) -> list[Asked]:
        """Ask about each document.

        Raises:
            InputTooLong: query and instruction leave no room for a document.
        """


def make_prompt(score: LogitScore, tokenizer: TextTokenizer, special: Mapping[str, str]) -> Prompt:
    """Return the recipe's way of asking; `special` names tokens that templates may use."""
    if score.form == "chat":
        return ChatPrompt(score, tokenizer, special)
    if score.form == "pair":
        return PairPrompt(tokenizer)
    return FormPrompt(FORMS[score.form], tokenizer)


class PairPrompt:
    """Both texts as the tokenizer joins a pair."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer

    def ask(
        self, query: str, instruction: str, documents: Sequence[str], limit: int | None
    ) -> list[Asked]:
        """Join; an instruction goes in front of the query."""
        first = f"{instruction} {query}" if instruction else query
        pairs = self._tokenizer.encode_pairs(first, documents, limit)
        return [Asked(one.ids, one.truncated) for one in pairs]


class FormPrompt:
    """The parts of a form, each tokenised by itself."""

    def __init__(self, form: Form, tokenizer: TextTokenizer) -> None:
        self._form = form
        self._tokenizer = tokenizer
        self._after = self._ids(form.after)

    def ask(
        self, query: str, instruction: str, documents: Sequence[str], limit: int | None
    ) -> list[Asked]:
        """Put the parts together, the document cut to fit."""
        query = self._tokenizer.cut(query, _query_room(limit))
        fields = {"query": query, "instruction": instruction or self._form.instruction}
        before = self._ids(
            [
                part.format(**fields)
                for part in self._form.before
                if "{instruction}" not in part or fields["instruction"]
            ]
        )
        room = None if limit is None else limit - len(before) - len(self._after)
        own = self._form.document.format(**fields, document="")
        _check_room(room, self._tokenizer.count(own))
        texts = [self._form.document.format(**fields, document=one) for one in documents]
        asked = []
        for tokens in self._tokenizer.encode(texts, room, special_tokens=False):
            ids = np.concatenate([before, tokens.ids, self._after])
            asked.append(Asked(ids, tokens.truncated))
        return asked

    def _ids(self, parts: Sequence[str]) -> np.ndarray:
        pieces = self._tokenizer.encode(list(parts), None, special_tokens=False)
        return np.concatenate([np.zeros(0, np.int64), *(one.ids for one in pieces)])


class ChatPrompt:
    """The checkpoint's own chat template, with a message for the query and one for the document.

    Source: the message roles of sentence-transformers' CrossEncoder. What the template puts after
    the document is never cut: the score is read at its end.
    """

    def __init__(
        self, score: LogitScore, tokenizer: TextTokenizer, special: Mapping[str, str]
    ) -> None:
        self._score = score
        self._tokenizer = tokenizer
        self._options: dict[str, Any] = {**special, **score.template_options}

    def ask(
        self, query: str, instruction: str, documents: Sequence[str], limit: int | None
    ) -> list[Asked]:
        """Render and tokenise each pair whole."""
        query = self._tokenizer.cut(query, _query_room(limit))
        instruction = instruction or self._score.instruction
        texts = self._render(query, instruction, ["0", "1 2 3 4", *documents])
        first, second, *pairs = self._tokenizer.encode(texts, None, special_tokens=False)
        suffix = _shared_end(first.ids, second.ids)
        _check_room(limit, len(first.ids))
        return [_cut(one.ids, suffix, limit) for one in pairs]

    def _render(self, query: str, instruction: str, documents: Sequence[str]) -> list[str]:
        system = [self._message("system", instruction)] if instruction else []
        conversations = [
            [*system, self._message("query", query), self._message("document", document)]
            for document in documents
        ]
        # Only here: it takes most of a second to import, and few models are asked with a template.
        templates: Any = importlib.import_module("transformers.utils.chat_template_utils")
        rendered: Any = templates.render_jinja_template(
            conversations, chat_template=self._score.template, **self._options
        )
        texts: list[str] = rendered[0]
        return texts

    def _message(self, role: str, text: str) -> dict[str, Any]:
        content: Any = [{"type": "text", "text": text}] if self._score.is_structured else text
        return {"role": role, "content": content}


def read_special_tokens(folder: Path) -> dict[str, str]:
    """Return the tokens of tokenizer_config.json by name, e.g. {"bos_token": "<s>"}."""
    found = {}
    for name, value in Files(folder).read("tokenizer_config.json").items():
        text = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(text, str):
            found[name] = text
    return found


def _query_room(limit: int | None) -> int | None:
    return None if limit is None else max(int(limit * QUERY_SHARE), 1)


def _check_room(room: int | None, num_taken: int) -> None:
    if room is not None and num_taken >= room:
        raise InputTooLong(
            "query and instruction leave no room for a document; shorten them or raise max_length"
        )


def _shared_end(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    shortest = min(len(first), len(second))
    same = first[::-1][:shortest] == second[::-1][:shortest]
    count = shortest if same.all() else int(same.argmin())
    return first[len(first) - count :]


def _cut(ids: np.ndarray, suffix: np.ndarray, limit: int | None) -> Asked:
    if limit is None or len(ids) <= limit:
        return Asked(ids, False)
    return Asked(np.concatenate([ids[: limit - len(suffix)], suffix]), True)
