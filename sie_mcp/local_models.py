"""Models that are named by a folder, and whether a caller may do so; names in URLs."""

from pathlib import Path
from urllib.parse import quote

from sie_mcp.errors import NotAllowed

FOLDER_PREFIXES = ("/", "./", "../", "~")
# What a gateway tells its worker of a caller: yes or no. A worker on TCP may refuse all the same.
LOCAL_MODELS_HEADER = "X-SIE-Local-Models"
LOCAL_MODELS_REFUSED = (
    "this server does not let callers name a folder for a model; give a catalogue name or a hub id "
    "(org/name), or start it with SIE_MCP_ALLOW_LOCAL_MODELS=true"
)


def is_local_model(name: str) -> bool:
    """Whether a name is that of a folder, or looks so to any system."""
    stripped = name.strip()
    return stripped.startswith((*FOLDER_PREFIXES, "\\")) or "file:" in stripped[:8].lower()


def model_in_path(model: str, allows_local: bool) -> str:
    """Write a model's name as part of a URL. A relative path is relative to this process.

    Dots that would walk up a URL are escaped, as everything else that has a meaning in one.

    Raises:
        NotAllowed: it is a folder's name, and they are not allowed.
    """
    if is_local_model(model) and not allows_local:
        raise NotAllowed(LOCAL_MODELS_REFUSED)
    if model.startswith(("./", "../", "~/")):
        model = str(Path(model).expanduser().resolve())
    segments = [quote(segment, safe="") for segment in model.split("/")]
    return "/".join(s.replace(".", "%2E") if s in (".", "..") else s for s in segments)
