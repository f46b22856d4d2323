"""What the MCP registry asks of a server.json, as far as ours uses it.

Written by hand after its schema of 2025-12-11, which no package carries. Stricter than that: a
field that is not named here is refused, so that a misspelt one is found.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Short = Annotated[str, StringConstraints(min_length=1, max_length=100)]
# A release; the registry refuses ranges such as ^1.2, >=1.2, 1.x and "latest".
Version = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+([-+.]?[a-z0-9.]+)?$")]


class Entry(BaseModel):
    """Known fields only, spelt as they are."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Input(Entry):
    """Something that a user may fill in; `value` is fixed, `default` is not."""

    description: str | None = None
    format: Literal["string", "number", "boolean", "filepath"] = "string"
    value: str | None = None
    default: str | None = None
    is_required: bool = Field(default=False, alias="isRequired")
    is_secret: bool = Field(default=False, alias="isSecret")

    @model_validator(mode="after")
    def _default_fits(self) -> Self:
        if self.format == "boolean" and self.default not in (None, "true", "false"):
            raise ValueError(f"{self.default!r} is no boolean")
        if self.value is not None and self.default is not None:
            raise ValueError("a value is fixed; a default beside it says nothing")
        return self


class Variable(Input):
    """An environment variable."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")]


class Named(Input):
    """A flag."""

    type: Literal["named"]
    name: Annotated[str, StringConstraints(pattern=r"^--?[a-z][a-z-]*$")]
    is_repeated: bool = Field(default=False, alias="isRepeated")


class Positional(Input):
    """A word of the command; one that is not fixed has a hint for what it is."""

    type: Literal["positional"]
    value_hint: str | None = Field(default=None, alias="valueHint")
    is_repeated: bool = Field(default=False, alias="isRepeated")

    @model_validator(mode="after")
    def _is_named(self) -> Self:
        if self.value is None and self.value_hint is None:
            raise ValueError("a positional argument has a value or a valueHint")
        return self


Argument = Annotated[Named | Positional, Field(discriminator="type")]


class Transport(Entry):
    """How the started program is spoken to."""

    type: Literal["stdio"]


class Package(Entry):
    """A package of PyPI, and how to start it."""

    registry_type: Literal["pypi"] = Field(alias="registryType")
    identifier: Short
    version: Version
    runtime_hint: Literal["uvx"] = Field(alias="runtimeHint")
    runtime_arguments: list[Argument] = Field(alias="runtimeArguments")
    package_arguments: list[Argument] = Field(alias="packageArguments")
    environment_variables: list[Variable] = Field(alias="environmentVariables")
    transport: Transport


class ServerFile(Entry):
    """A server.json."""

    schema_url: Literal[
        "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
    ] = Field(alias="$schema")
    name: Annotated[str, StringConstraints(max_length=200)]
    title: Short
    description: Short
    version: Version
    packages: Annotated[list[Package], Field(min_length=1)]

    @model_validator(mode="after")
    def _name_is_in_a_namespace(self) -> Self:
        if not re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", self.name):
            raise ValueError(f"{self.name!r} is not of the form namespace/name")
        return self
