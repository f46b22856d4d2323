"""What a gateway tells a worker: which models to pull, and for how long."""

import pydantic
from pydantic import ConfigDict, Field

PATH = "/v1/pull"
MAX_TOKENS = 256


class PullRequest(pydantic.BaseModel):
    """A lease: it ends by itself unless it is told again.

    `tokens` are those of models in subjects. What is not named is not pulled any longer than
    another gateway's lease says.
    """

    model_config = ConfigDict(extra="forbid")

    pool: str
    tokens: list[str] = Field(max_length=MAX_TOKENS)
    lease_s: float = Field(gt=0, le=600)
    ack_wait_s: float = Field(gt=0, le=86_400)
    slots: int = Field(ge=1, le=4_096)


class PullAnswer(pydantic.BaseModel):
    """How many models the worker pulls now."""

    model_config = ConfigDict(extra="forbid")

    pulled: int
