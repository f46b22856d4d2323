"""Settings: where a gateway listens, over HTTP and for proxies."""

from typing import Literal

from pydantic import BaseModel, Field

from sie_mcp.setting_types import AnyPath, Hosts, Origins


class FrontSettings(BaseModel):
    """The HTTP front and the endpoint picker."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65_535)
    # Where the port is the scheme's own, Host has none.
    allowed_hosts: Hosts = tuple(
        host for name in ("127.0.0.1", "localhost", "[::1]") for host in (name, f"{name}:*")
    )
    allowed_origins: Origins = ()
    max_mcp_body_bytes: int = Field(
        default=16 * 1024 * 1024, ge=1024, description="Of a tool call; of /v1: max_body_bytes."
    )
    max_kept_body_bytes: int = Field(
        default=4 * 1024 * 1024,
        ge=0,
        description="A larger body of /v1 goes through a gateway as it comes, and only once.",
    )
    keep_alive_s: int = Field(
        default=75,
        ge=65,
        description="An idle connection stays open; give more than a proxy before it does.",
    )
    http_processes: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="That read HTTP for a worker on a port; default: one for every four "
        "processors, four at most.",
    )
    graceful_timeout_s: int = Field(default=25, ge=1)
    drain_s: float = Field(
        default=0.0,
        ge=0,
        description="After SIGTERM: not ready, but still taking calls, for so long.",
    )
    route_by_model: bool = Field(
        default=False, description="Clients repeat `model` in a header, Mcp-Param-Model."
    )
    expose_metrics: Literal["open", "auth", "off"] = "open"
    console: bool | None = Field(
        default=None,
        description="Pages at / that show workers and try tools; default: where auth is set, or "
        "nobody but this machine can call.",
    )

    # The endpoint picker, for proxies.
    picker_port: int = Field(default=9_002, ge=0, le=65_535, description="Where Envoy asks (gRPC).")
    picker_health_port: int = Field(
        default=9_003, ge=0, le=65_535, description="Where probes do (gRPC, plain text)."
    )
    picker_certificate_dir: AnyPath | None = Field(
        default=None, description="With tls.crt and tls.key for picker_port; default: no TLS."
    )
