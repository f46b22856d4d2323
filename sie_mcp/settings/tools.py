"""Settings: what tools read, how long they may take, and what is kept of their work."""

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from sie_mcp.setting_types import AnyPath, Folders, Names, StoreUri


class ToolSettings(BaseModel):
    """Tools, and the cache of vectors."""

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
