"""What a worker tells a door that it starts, on one line of its standard input."""

from typing import Self

import pydantic

from sie_mcp.config import Config


class Order(pydantic.BaseModel):
    """Where to listen and whom to ask.

    Attributes:
        listeners: The descriptors of the sockets that all doors accept from.
        socket: The worker's own Unix socket.
        settings: The worker's.
    """

    listeners: list[int]
    socket: str
    settings: dict[str, object]

    @classmethod
    def of(cls, listeners: list[int], socket: str, config: Config) -> Self:
        """Write down settings."""
        return cls(listeners=listeners, socket=socket, settings=config.model_dump(mode="json"))

    def config(self) -> Config:
        """Return the settings."""
        return Config.model_validate(self.settings)
