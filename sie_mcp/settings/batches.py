"""Settings: how a worker's requests become batches, and how much of them it takes."""

from pydantic import BaseModel, Field

from sie_mcp.setting_types import Weights


class BatchSettings(BaseModel):
    """Batching and admission."""

    max_batch_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Tokens of one forward pass; default: measured for each model while idle, "
        "before that 16384 on a GPU, 4096 on the CPU.",
    )
    max_batch_sequences: int = Field(default=512, ge=1)
    max_queue_tokens: int = Field(
        default=2_000_000, ge=1, description="Tokens that may wait; beyond it requests are refused."
    )
    max_queue_sequences: int = Field(
        default=65_536, ge=1, description="Texts that may wait, as above."
    )
    max_client_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="The part of the queue that one client (X-SIE-Client) may hold.",
    )
    max_queue_age_s: float = Field(
        default=2.0,
        gt=0,
        description="One batch in four begins with what has waited longer than this.",
    )
    model_weights: Weights = Field(
        default=(),
        description="Shares of the device as model=weight, 0.1 to 10; other models have 1.",
    )
    max_items: int = Field(default=4_096, ge=1, description="Items in one worker request.")
    max_item_chars: int = Field(default=2_000_000, ge=1)
    max_request_tokens: int = Field(
        default=2_000_000, ge=1, description="Tokens that one worker request may come to."
    )
    max_image_bytes: int = Field(
        default=20 * 1024 * 1024, ge=1, description="An image's file; its pixels have a limit too."
    )
    max_body_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    tokenizer_threads: int = Field(default=2, ge=1)
    request_timeout_s: float = Field(default=600.0, gt=0, description="A request's deadline.")

    max_forward_s: float | None = Field(
        default=None,
        gt=0,
        description="A forward pass that takes longer is stuck and ends the worker; default: 120 "
        "on a GPU, 1800 on the CPU.",
    )
