"""What stands before a text: the relations, each after a mark, in as many prompts as they need."""

from sie_mcp.adapters.glirel.reading import Prompt
from sie_mcp.adapters.glirel.rule import ADDED, END, FIRST, LAST, RELATION
from sie_mcp.adapters.label_prompts import deal_labels
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed
from sie_mcp.wire_structure import MAX_FIELDS


class PromptMaker:
    """Makes prompts of relations.

    Raises:
        ModelLoadFailed: a mark is not one token.
    """

    def __init__(self, name: str, tokenizer: TextTokenizer, max_tokens: int) -> None:
        self._name, self._tokenizer, self._max_tokens = name, tokenizer, max_tokens
        marks = [RELATION, END, FIRST, LAST]
        pieces = tokenizer.pieces(marks)
        for mark, ids in zip(marks, pieces, strict=True):
            if len(ids) != 1:
                raise ModelLoadFailed(
                    f"{name}: its tokenizer reads {mark!r} as {ids}, not as one token; it needs "
                    f"{', '.join(ADDED)}"
                )
        self._mark, self._end = pieces[:2]

    def prompts(self, relations: list[str]) -> list[Prompt]:
        """Return the prompts that hold the relations, in order.

        Raises:
            InputTooLong: a relation that fills a prompt alone.
            InvalidInput: a relation of which the tokenizer makes nothing.
        """
        pieces = self._tokenizer.pieces(relations)
        room = self._max_tokens - len(self._end)
        for relation, ids in zip(relations, pieces, strict=True):
            if not ids:
                raise InvalidInput(f"relation {relation!r} has nothing that {self._name} can read")
            if len(ids) + 1 > room:
                raise InputTooLong(
                    f"relation {relation[:60]!r} has {len(ids) + 1} tokens; {self._name} reads "
                    f"relations of at most {room}; shorten it"
                )
        sizes = [len(ids) + 1 for ids in pieces]
        return [
            Prompt(places, [*(w for one in places for w in (self._mark, pieces[one])), self._end])
            for places in deal_labels(sizes, max_labels=MAX_FIELDS, max_tokens=room)
        ]
