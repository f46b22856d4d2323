"""Which models a request asks for, by its path, its body and its headers: for whoever routes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from sie_mcp.dialects.operation import AUTO, MODEL_HEADER
from sie_mcp.dialects.table import MODEL_IN_BODY

_PRIMITIVES = ("encode", "score", "extract")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a path says.

    Attributes:
        model: Empty where it is for none, or where the body says it.
        is_in_body: The body may name it, else a header, else it is the default.
        has_lora: Its body can name a low-rank adapter.
    """

    model: str = ""
    is_in_body: bool = False
    has_lora: bool = False


def asked_of(path: str, method: str) -> Asked:
    """Read a path."""
    if path in MODEL_IN_BODY:
        return Asked(is_in_body=True)
    verb, _, rest = path.removeprefix("/v1/").partition("/")
    if path.startswith("/v1/") and verb in _PRIMITIVES:
        return Asked(rest, has_lora=True)
    if path.startswith("/v1/models/") and method == "POST":
        return Asked(rest.rpartition("/")[0])
    return Asked()


def model_named(body: Any, headers: Mapping[str, str]) -> str:
    """Return the model that a body names, else the header's, else the default."""
    return text_of(body, "model") or unquote(headers.get(MODEL_HEADER, "")).strip() or AUTO


def loras_named(body: Any) -> list[str]:
    """Return the low-rank adapters that a body names: what is fetched by name is a model too."""
    holders = (_field(body, "params"), body)
    found = [text_of(_field(holder, "options"), "lora") for holder in holders]
    return [name for name in found if name]


def text_of(holder: Any, name: str) -> str | None:
    """Return a field that is a text."""
    found = _field(holder, name)
    return found if isinstance(found, str) else None


def _field(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else None
