"""The part of the wire contract about structure: what to look for besides names, and what is found.

Nothing here knows HTTP, models or torch.
"""

from typing import Annotated

import pydantic
from pydantic import AfterValidator, ConfigDict, Field

from sie_mcp.wire_fields import Text

MAX_FIELDS = 100


def _not_blank(name: str) -> str:
    """Return the name.

    Raises:
        ValueError: a model would read nothing in it.
    """
    if not name.strip():
        raise ValueError(f"{name!r} needs at least one character that is not a space")
    return name


Name = Annotated[Text, Field(max_length=200), AfterValidator(_not_blank)]


class Body(pydantic.BaseModel):
    """Base of these bodies: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class FieldSpec(Body):
    """A field of a record: its best value, or with `is_list` all values.

    With `choices` its value is one of them, or with `is_list` several, and stands nowhere.
    """

    name: Name
    description: Text = ""
    is_list: bool = False
    choices: list[Name] | None = Field(default=None, min_length=1, max_length=MAX_FIELDS)


class RecordSpec(Body):
    """A kind of record, of which a text can hold several."""

    name: Name
    fields: list[FieldSpec] = Field(min_length=1, max_length=MAX_FIELDS)


class LabelsSpec(Body):
    """A question about the whole text: one of the labels, or with `multi_label` any of them.

    `labels` are labels and their descriptions, "" where the name says it.
    """

    name: Name
    labels: dict[Name, Text] = Field(min_length=1, max_length=MAX_FIELDS)
    multi_label: bool = False


class Structure(Body):
    """What to look for, all read in one pass; entities and relations with their descriptions."""

    entities: dict[Name, Text] = Field(default={}, max_length=MAX_FIELDS)
    relations: dict[Name, Text] = Field(default={}, max_length=MAX_FIELDS)
    classifications: list[LabelsSpec] = Field(default=[], max_length=MAX_FIELDS)
    records: list[RecordSpec] = Field(default=[], max_length=MAX_FIELDS)


class FieldValue(Body):
    """A value of a field, and where it stands, in code points; a choice stands nowhere."""

    text: str
    score: float
    start: int | None = None
    end: int | None = None


class Record(Body):
    """One record: every field that was asked for, with no value if there is none."""

    name: str
    fields: dict[str, list[FieldValue]]
