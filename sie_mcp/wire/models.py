"""What a worker says of its models and its settings."""

from typing import Any, Literal

from pydantic import Field

from sie_mcp.wire.items import Body
from sie_mcp.wire_fields import ModelState
from sie_mcp.wire_memory import ModelMemory


class ModelError(Body):
    """Why the last load failed."""

    code: str
    message: str
    attempts: int
    permanent: bool


class ModelCard(Body):
    """One entry of the model listing; `decisions` says which file decided what (pooling, …).

    `id`, `object`, `created` and `owned_by` are for clients of OpenAI.

    `loras` are the low-rank adapters that the checkpoint itself holds; `lora` of a request can also
    name others. `residents` is its account on each device where it is, or is coming. `revision`
    changes with anything that its numbers depend on: files, settings, dtype, program; None: not up.
    """

    name: str
    id: str | None = None
    object: Literal["model"] | None = None
    created: int | None = None
    owned_by: str | None = None
    inputs: list[str] = Field(default=["text"])
    outputs: list[str] = Field(default=[])
    primitives: list[str] = Field(default=[])
    dims: dict[str, int] = Field(default={})
    labels: list[str] | None = None
    loras: list[str] = Field(default=[])
    loaded: bool = False
    state: ModelState = "available"
    last_error: ModelError | None = None
    max_sequence_length: int | None = None
    packed: bool | None = None
    revision: str | None = None
    size_bytes: int | None = None
    resident_bytes: int = 0
    host_bytes: int = 0
    device: str | None = None
    residents: list[ModelMemory] = Field(default=[])
    licence: str | None = None
    description: str | None = None
    decisions: dict[str, str] = Field(default={})
    profiles: dict[str, Any] = Field(default={})


class Revision(Body):
    """Answer of `GET /v1/revision/{model}`: None while no device has the model."""

    model: str
    revision: str | None = None


class OpenAIModel(Body):
    """A model as OpenAI lists it; `created` is not known."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "sie-mcp"


class EffectiveSetting(Body):
    """A setting of the worker: as asked for, as it is in force, and why where they differ."""

    name: str
    requested: str
    effective: str
    reason: str | None = None


class ModelList(Body):
    """Answer of `GET /v1/models`; `memory` is the whole account, in bytes.

    `object` and `data` are the same for clients of OpenAI. `settings` are the worker's.
    """

    object: Literal["list"] | None = None
    data: list[OpenAIModel] | None = None
    models: list[ModelCard]
    defaults: dict[str, str] = Field(default={})
    memory: dict[str, int] = Field(default={})
    settings: list[EffectiveSetting] = Field(default=[])
