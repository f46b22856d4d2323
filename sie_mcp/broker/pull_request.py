"""What a gateway tells a worker: which models to pull, and for how long."""

from typing import Annotated

import pydantic
from pydantic import ConfigDict, Field

from sie_mcp.broker.names import MAX_TOKEN_CHARS

PATH = "/v1/pull"
MAX_TOKENS = 256
# What `token_of` makes: nothing that means more in a subject.
Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9%+_~-]+$", max_length=MAX_TOKEN_CHARS)]


class PullRequest(pydantic.BaseModel):
    """A lease: it ends by itself unless it is told again.

    `tokens` are those of models in subjects. What is not named is not pulled any longer than
    another gateway's lease says.
    """

    model_config = ConfigDict(extra="forbid")

    pool: str
    tokens: list[Token] = Field(max_length=MAX_TOKENS)
    lease_s: float = Field(gt=0, le=600)
    ack_wait_s: float = Field(gt=0, le=86_400)
    slots: int = Field(ge=1, le=4_096)


class PullAnswer(pydantic.BaseModel):
    """How many models the worker pulls now."""

    model_config = ConfigDict(extra="forbid")

    pulled: int
