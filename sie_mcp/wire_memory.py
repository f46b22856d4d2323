"""The contract of the memory account and of what moves models: load, unload, pin.

Bytes and seconds throughout. Nothing here knows HTTP, models or torch.
"""

from typing import Literal

import pydantic
from pydantic import ConfigDict, Field

from sie_mcp.wire_fields import ModelState, NonNegative

MAX_WAIT_S = 3_600.0
# Where an unloaded model stays: in host memory, ready to come back by one copy, or nowhere.
UnloadTier = Literal["host", "all"]


class Body(pydantic.BaseModel):
    """Base of these bodies: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Thrash(Body):
    """How much work loading bought; a stay is a model's time between its load and its eviction.

    `short_stays` counts evictions of models that had worked for less time than their load took.
    """

    loads_per_minute: float = 0.0
    loads: int = 0
    evictions: int = 0
    short_stays: int = 0
    load_s: float = 0.0
    device_s: float = 0.0
    requests_per_load: float = 0.0
    tokens_per_load: float = 0.0


class ModelMemory(Body):
    """A model, or a low-rank adapter of one, on one device.

    `unused_s` is the time since its last use, `load_s` what its last load took.
    """

    name: str
    device: str
    state: ModelState
    size_bytes: int
    users: int = 0
    pinned: bool = False
    unused_s: float = 0.0
    load_s: float = 0.0
    thrash: Thrash = Field(default_factory=Thrash)


class HostModel(Body):
    """A model whose weights lie in host memory."""

    name: str
    size_bytes: int


class HostMemory(Body):
    """The tier below a device."""

    budget_bytes: int
    resident_bytes: int
    models: list[HostModel] = []


class DeviceMemory(Body):
    """The account of one device.

    `reserved_bytes` is the workspace of one full batch. `allocated_bytes` and `cached_bytes` are
    the allocator's own figures, where it has some: live tensors, and what it holds in all.
    """

    device: str
    budget_bytes: int
    reserved_bytes: int
    resident_bytes: int
    free_bytes: int
    pinned_bytes: int = 0
    queue_tokens: int = 0
    allocated_bytes: int | None = None
    cached_bytes: int | None = None
    host: HostMemory | None = None
    thrash: Thrash = Field(default_factory=Thrash)
    models: list[ModelMemory] = []


class MemoryAccount(Body):
    """Answer of `GET /v1/memory`."""

    devices: list[DeviceMemory]


class LoadRequest(Body):
    """Body of `POST /v1/models/{model}/load`: bring a model up before its first request.

    Answered with the model's card: status 202 while it loads, 200 once it is up. An error of the
    load is given to those who wait for it. `pin` keeps it on the device until it is unpinned.
    """

    wait_s: NonNegative = Field(default=0.0, le=MAX_WAIT_S)
    pin: bool = False


class UnloadRequest(Body):
    """Body of `POST /v1/models/{model}/unload`: give a model's memory back; takes its pin away.

    While requests use the model it is refused, unless it may wait for them.
    """

    wait_s: NonNegative = Field(default=0.0, le=MAX_WAIT_S)
    tier: UnloadTier = "host"


class PinRequest(Body):
    """Body of `POST /v1/models/{model}/pin` and `/unpin`: nothing to say."""
