"""Token ids in the place of texts, and a model's tokens for whoever asks. Knows no task."""

from collections.abc import Sequence as Series
from dataclasses import dataclass

from sie_mcp import wire
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InvalidInput
from sie_mcp.wire import Request


@dataclass(frozen=True, slots=True)
class NamedToken:
    """One token of a text; `start` and `end` are None for special tokens."""

    id: int
    text: str
    start: int | None
    end: int | None


def with_texts(request: Request, tokenizer: TextTokenizer | None, model: str) -> Request:
    """Return the request with each item's ids replaced by their text.

    A model prepares texts: its prompts, limits and special tokens are then those of any text.

    Raises:
        InvalidInput: ids that the model's tokenizer does not make, such as another model's.
    """
    holders = [*request.items, *([request.query] if isinstance(request, wire.ScoreRequest) else [])]
    if all(item.input_ids is None for item in holders):
        return request
    if tokenizer is None:
        raise InvalidInput(f"{model} takes no input_ids; send texts")
    items = [
        _with_text(item, tokenizer, f"items[{index}]", model)
        for index, item in enumerate(request.items)
    ]
    changes: dict[str, object] = {"items": items}
    if isinstance(request, wire.ScoreRequest):
        changes["query"] = _with_text(request.query, tokenizer, "query", model)
    return request.model_copy(update=changes)


def named_tokens(
    tokenizer: TextTokenizer, texts: Series[str], *, special_tokens: bool
) -> list[list[NamedToken]]:
    """Return the tokens of each text, special ones around them if asked for."""
    return [
        [
            NamedToken(one, tokenizer.token(one), *(place if place[1] else (None, None)))
            for one, place in zip(tokens.ids.tolist(), tokens.offsets, strict=True)
        ]
        for tokens in tokenizer.encode(texts, None, special_tokens=special_tokens)
    ]


def decoded(
    tokenizer: TextTokenizer, lists: Series[list[int]], *, skip_special_tokens: bool, model: str
) -> list[str]:
    """Return the text of each list of ids.

    Raises:
        InvalidInput: an id that the tokenizer does not have.
    """
    for index, ids in enumerate(lists):
        _check_range(ids, tokenizer, f"ids[{index}]", model)
    return [tokenizer.decode(ids, skip_special_tokens=skip_special_tokens) for ids in lists]


def _with_text(item: wire.Item, tokenizer: TextTokenizer, where: str, model: str) -> wire.Item:
    if item.input_ids is None:
        return item
    _check_range(item.input_ids, tokenizer, where, model)
    ids = tokenizer.without_special_tokens(item.input_ids)
    text = tokenizer.decode(ids, skip_special_tokens=False)
    (again,) = tokenizer.encode([text], None, special_tokens=False)
    if not text.strip() or again.ids.tolist() != ids:
        raise InvalidInput(
            f"{where}: these are not the ids that the tokenizer of {model} makes of a text; "
            "send the text itself (langchain: check_embedding_ctx_length=False)"
        )
    return item.model_copy(update={"text": text, "input_ids": None})


def _check_range(ids: Series[int], tokenizer: TextTokenizer, where: str, model: str) -> None:
    wrong = next((one for one in ids if not tokenizer.has(one)), None)
    if wrong is not None:
        raise InvalidInput(
            f"{where}: {wrong} is no token id of {model}; send the text itself "
            "(langchain: check_embedding_ctx_length=False)"
        )
