"""What a worker tells a door that it starts, on one line of its standard input."""

from typing import Self

import pydantic

from sie_mcp.config import Config


class Order(pydantic.BaseModel):
    """Where to listen and whom to ask.

    Attributes:
        listener: The descriptor of the socket that all doors accept from.
        socket: The worker's own Unix socket.
        settings: The worker's.
    """

    listener: int
    socket: str
    settings: dict[str, object]

    @classmethod
    def of(cls, listener: int, socket: str, config: Config) -> Self:
        """Write down settings."""
        return cls(listener=listener, socket=socket, settings=config.model_dump(mode="json"))

    def config(self) -> Config:
        """Return the settings."""
        return Config.model_validate(self.settings)
