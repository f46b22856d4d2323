"""Settings: which workers a gateway asks, and how: one of its own, several, or by a queue."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from sie_mcp.setting_types import AnyPath, BrokerUri, Names, Url


class WorkerSettings(BaseModel):
    """The shared local worker, pools of workers, and the queue of requests."""

    worker_url: Url | None = Field(
        default=None, description="Use this worker instead of starting a local one."
    )
    workers: Names = Field(
        default=(),
        description="Workers to choose among: http://host:port of each, with commas between, or "
        "dns://host:port for every address of a name.",
    )
    pools_file: AnyPath | None = Field(
        default=None, description="Several pools of workers, and which models run in which (TOML)."
    )
    worker_slots: int = Field(
        default=8, ge=1, description="Requests that one of `workers` runs well side by side."
    )
    max_pool_waiting: int = Field(
        default=1_024, ge=1, description="Requests that may wait in the gateway for a pool."
    )
    pool_hold_s: float = Field(
        default=120.0, gt=0, description="How long a request waits for a worker of its pool."
    )
    gateways: int = Field(
        default=1, ge=1, description="Gateways in front of the same workers; each sees its share."
    )
    kubernetes_url: Url = Field(
        default="https://kubernetes.default.svc",
        description="The API that pools with a `service` ask who is there.",
    )
    kubernetes_credentials_dir: AnyPath = Field(
        default=Path("/var/run/secrets/kubernetes.io/serviceaccount"),
        description="With `token` and `ca.crt` for it, read anew for each connection.",
    )
    queue_uri: BrokerUri | None = Field(
        default=None,
        description="A NATS server with JetStream that requests may go by: nats://host:4222.",
    )
    queue_for: Literal["bulk", "all", "asked"] = Field(
        default="bulk",
        description="Which do: those of bulk priority, all, or those with X-SIE-Transport: queue.",
    )
    queue_pool: str = Field(default="default", description="The pool that a worker belongs to.")
    queue_max_messages: int = Field(
        default=100_000, ge=1, description="Requests in one stream; beyond it they are refused."
    )
    queue_max_bytes: int = Field(default=1024**3, ge=1024**2, description="The same, in bytes.")
    queue_replicas: int = Field(
        default=1, ge=1, le=5, description="Servers that keep a job, and its result."
    )
    queue_ack_wait_s: float = Field(
        default=30.0,
        ge=1,
        description="A request whose worker is silent for so long goes to another.",
    )
    queue_job_ttl_s: float = Field(
        default=86_400.0,
        ge=60,
        description="How long a job may wait, and how long its result can be read.",
    )
    worker_start_timeout_s: float = Field(default=60.0, gt=0)
    worker_idle_exit_s: float = Field(default=900.0, ge=0, description="0: never leaves.")
