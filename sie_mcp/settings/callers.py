"""Settings: who may call over TCP, and how often."""

from typing import Literal

from pydantic import BaseModel, Field

from sie_mcp.setting_types import AnyPath, Url


class CallerSettings(BaseModel):
    """Keys, OAuth and limits of callers."""

    auth: Literal["none", "api-key", "oauth"] = "none"
    api_keys_file: AnyPath | None = Field(
        default=None, description="Hashes of keys, as `sie-mcp key new` prints; may be a secret."
    )
    resource_url: Url | None = Field(
        default=None, description="This server as callers name it: https://HOST/mcp."
    )
    oauth_issuer: Url | None = Field(default=None, description="The authorization server.")
    oauth_jwks_url: Url | None = Field(
        default=None, description="Its keys; default: what its metadata says."
    )
    oauth_introspection_url: Url | None = Field(
        default=None, description="Where it says what an opaque token is (RFC 7662)."
    )
    oauth_client_id: str | None = Field(default=None, description="As whom this server asks there.")
    oauth_client_secret_file: AnyPath | None = Field(default=None, description="And its secret.")
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="Of a caller whose key sets no limit of its own; so below."
    )
    tokens_per_minute: int | None = Field(default=None, ge=1)
    max_concurrent: int | None = Field(default=None, ge=1, description="In each replica.")
    limit_storage: str = Field(
        default="memory://", description="redis://HOST:PORT/DB: replicas count together."
    )
    worker_key_file: AnyPath | None = Field(
        default=None, description="The key that a worker at worker_url wants."
    )
    allow_local_models: bool = Field(
        default=False,
        description="Callers over TCP may name a folder for a model; over a local pipe they may.",
    )
