"""A schema as the model reads it: one part a task, its markers' places known by construction.

Source: processor.py of the gliner2 package. Every piece is tokenised by itself, so that no name or
text of a caller can move a marker.
"""

from collections.abc import Sequence as Series
from dataclasses import dataclass
from functools import cached_property

from sie_mcp.adapters.gliner2.head import Kind, Task
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InvalidInput, ModelLoadFailed
from sie_mcp.wire_structure import FieldSpec, RecordSpec, Structure

_PARENT, _NEXT, _TEXT, _DESCRIPTION = "[P]", "[SEP_STRUCT]", "[SEP_TEXT]", "[DESCRIPTION]"
_CHILD: dict[Kind, str] = {"record": "[C]", "entities": "[E]", "relation": "[R]", "labels": "[L]"}
_MARKERS = (_PARENT, _NEXT, _TEXT, _DESCRIPTION, *_CHILD.values())
ENDS = ("head", "tail")


@dataclass(frozen=True, slots=True)
class Part:
    """One task of a schema: what it is about, what it is told, and its fields in order."""

    kind: Kind
    name: str
    told: str
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Schema:
    """A structure as parts, in the order in which the model was trained on them."""

    structure: Structure
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, structure: Structure) -> "Schema":
        """Lay out a structure.

        Raises:
            InvalidInput: it looks for nothing, or names two records, questions or fields alike.
        """
        _check(structure)
        parts = [_record(one) for one in structure.records]
        if structure.entities:
            told = _described("entities", structure.entities)
            parts.append(Part("entities", "entities", told, tuple(structure.entities)))
        for name, description in structure.relations.items():
            told = f"{name}: {description}" if description else name
            parts.append(Part("relation", name, told, ENDS))
        for one in structure.classifications:
            told = _described(one.name, one.labels)
            parts.append(Part("labels", one.name, told, tuple(one.labels)))
        return cls(structure, tuple(parts))

    @cached_property
    def prefix(self) -> list[str]:
        """The words in front of every text: records with the choices of their fields."""
        return _prefix(self.structure.records)[0]

    @cached_property
    def choices(self) -> dict[tuple[str, str], list[int]]:
        """For each (record, field) with choices, their places among the words of the prefix."""
        return _prefix(self.structure.records)[1]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A schema's tokens, up to the text, and its tasks' places among them."""

    ids: list[int]
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """One prompt: its part of what is looked for, and the tokens that stand before the text."""

    schema: Schema
    prompt: Prompt
    prefix: list[list[int]]

    @property
    def num_tokens(self) -> int:
        """Tokens that no text gets."""
        return len(self.prompt.ids) + sum(map(len, self.prefix))


class PromptMaker:
    """Makes prompts of schemas.

    Raises:
        ModelLoadFailed: the tokenizer does not know a marker as one token.
    """

    def __init__(self, name: str, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        for marker, ids in zip(_MARKERS, self.pieces(_MARKERS), strict=True):
            if len(ids) != 1:
                raise ModelLoadFailed(f"{name}: tokenizer.json does not know {marker} as a token")

    def pieces(self, words: Series[str]) -> list[list[int]]:
        """Return the ids of each word, tokenised by itself."""
        return self._tokenizer.alone(words)

    def asked(self, structure: Structure) -> Asked:
        """Return a structure as one prompt, however long."""
        schema = Schema.of(structure)
        return Asked(schema, self.prompt(schema), self.pieces(schema.prefix))

    def prompt(self, schema: Schema) -> Prompt:
        """Return the tokens of a schema."""
        words: list[str] = []
        places: list[list[int]] = []
        for part in schema.parts:
            words += [_NEXT] if words else []
            own = [len(words) + 1]
            words += ["(", _PARENT, part.told, "("]
            for name in part.fields:
                own.append(len(words))
                words += [_CHILD[part.kind], name]
            words += [")", ")"]
            places.append(own)
        ids: list[int] = []
        starts = []
        for piece in self.pieces([*words, _TEXT]):
            starts.append(len(ids))
            ids += piece
        tasks = tuple(
            Task(part.kind, starts[own[0]], tuple(starts[one] for one in own[1:]))
            for part, own in zip(schema.parts, places, strict=True)
        )
        return Prompt(ids, tasks)


def _record(record: RecordSpec) -> Part:
    described = {one.name: one.description for one in record.fields}
    return Part("record", record.name, _described(record.name, described), tuple(described))


def _described(name: str, descriptions: dict[str, str]) -> str:
    told = [f" {_DESCRIPTION} {one}: {text}" for one, text in descriptions.items() if text]
    return name + "".join(told)


def _prefix(records: Series[RecordSpec]) -> tuple[list[str], dict[tuple[str, str], list[int]]]:
    words: list[str] = []
    places: dict[tuple[str, str], list[int]] = {}
    for record in records:
        chosen = [one for one in record.fields if one.choices]
        if not chosen:
            continue
        words += ["(", f"{record.name}:"]
        for number, one in enumerate(chosen):
            words += [","] if number else []
            words += [one.name, "("]
            places[record.name, one.name] = _add_choices(words, one)
            words.append(")")
        words.append(")")
    return words, places


def _add_choices(words: list[str], field: FieldSpec) -> list[int]:
    """Append a field's choices to words; return their places."""
    places = []
    for number, choice in enumerate(field.choices or ()):
        words += ["|"] if number else []
        places.append(len(words))
        words.append(choice)
    return places


def _check(structure: Structure) -> None:
    lists = {
        "records": [one.name for one in structure.records],
        "classifications": [one.name for one in structure.classifications],
        **{f"record {one.name!r}": [own.name for own in one.fields] for one in structure.records},
    }
    for where, names in lists.items():
        if twice := sorted({one for one in names if names.count(one) > 1}):
            raise InvalidInput(f"structure: {where} has {twice[0]!r} more than once")
    if not any(structure.model_dump().values()):
        raise InvalidInput(
            "structure looks for nothing; name entities, relations, classifications or records"
        )
