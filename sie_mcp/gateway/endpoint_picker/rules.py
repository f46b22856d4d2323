"""What a request through a proxy may ask of workers, what it is for, and what it says of itself.

Workers trust whoever reaches them: what a gateway keeps from them a proxy must not let through. Who
calls is the proxy's to find out.
"""

from dataclasses import dataclass
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.requests import Request

from sie_mcp.connection import Want
from sie_mcp.dialects.asked import Asked, asked_of
from sie_mcp.dialects.table import OTHER_PATHS
from sie_mcp.errors import NotAllowed
from sie_mcp.gateway.wanted import read_want
from sie_mcp.local_models import LOCAL_MODELS_HEADER

API = "/v1/"
# Set by proxies that read bodies themselves; the other is the client's own repetition.
MODEL_HEADERS = ("x-gateway-model-name", "mcp-param-model")
_CREDENTIALS = ("authorization", "x-api-key", "cookie")


@dataclass(frozen=True, slots=True)
class Head:
    """A request's first part.

    Attributes:
        path: Without its query, escapes read.
    """

    method: str
    path: str
    headers: Headers

    @property
    def verb(self) -> str:
        """What is asked for."""
        return self.path.removeprefix(API).partition("/")[0]

    @property
    def asked(self) -> Asked:
        """What the path says of models."""
        return asked_of(self.path, self.method)

    @property
    def model(self) -> str:
        """The model as a header says it; empty where none does."""
        return next((self.headers[one] for one in MODEL_HEADERS if self.headers.get(one)), "")

    @property
    def is_told_by_body(self) -> bool:
        """Whether the body says the model, or more of it than path and headers do."""
        return self.asked.has_lora or (self.asked.is_in_body and not self.model)

    @property
    def needs_whole_body(self) -> bool:
        """Whether it must be read to the end; else its beginning is enough."""
        return self.asked.is_in_body


@dataclass(frozen=True, slots=True)
class Rules:
    """What is let through.

    Attributes:
        allows_control: Callers may load, pin and unload models.
        allows_local_models: Callers may name a folder for a model.
        worker_key: What workers want to be called with.
    """

    allows_control: bool = False
    allows_local_models: bool = False
    worker_key: str | None = None

    def check(self, head: Head) -> None:
        """Refuse what is not for callers.

        Raises:
            NotAllowed: it is no path for callers, or moves models.
        """
        if not head.path.startswith(API) and head.path not in OTHER_PATHS:
            raise NotAllowed(f"{head.path[:80]!r} is not for callers; there is {API}*")
        if head.verb == "models" and head.method != "GET" and not self.allows_control:
            raise NotAllowed(
                "callers may not load, unload or pin models; start the picker with "
                "SIE_MCP_ALLOW_MODEL_CONTROL=true"
            )

    def marks(self) -> tuple[dict[str, str], list[str]]:
        """Return headers that a worker is told the truth by, and those that it should not see."""
        marks = {LOCAL_MODELS_HEADER.lower(): "yes" if self.allows_local_models else "no"}
        if self.worker_key is None:
            return marks, list(_CREDENTIALS)
        others = [name for name in _CREDENTIALS if name != "authorization"]
        return {**marks, "authorization": f"Bearer {self.worker_key}"}, others


def read_head(headers: Headers) -> Head:
    """Read the first part of a request."""
    path, _, _ = headers.get(":path", "").partition("?")
    return Head(headers.get(":method", ""), unquote(path), headers)


def want_of(head: Head, content: bytes, among: frozenset[str] | None) -> Want:
    """Return what decides which worker gets the request.

    Args:
        head: Its first part.
        content: Of its body what was read.
        among: Base URLs of the only workers that may get it.
    """
    scope = {
        "type": "http",
        "method": head.method,
        "headers": head.headers.raw,
        "path": head.path,
    }
    want = read_want(Request(scope), content)
    model = head.model if head.asked.is_in_body and head.model else want.model
    return Want(model, want.lora, want.pool, among=among)
