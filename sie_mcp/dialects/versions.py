"""Which version of SIE's wire API an answer names: the one that the caller's own SDK speaks."""

from collections.abc import Mapping

import sie_mcp
from sie_mcp.errors import InvalidInput

SDK_HEADER = "X-SIE-SDK-Version"
# SDKs warn of a server that is more than one minor version away.
_SPOKEN = {"0.3": "0.3.1", "0.9": "0.10.1", "0.10": "0.10.1", "0.11": "0.10.1"}


def status_for(headers: Mapping[str, str], status: int) -> int:
    """Return the status of an error; to SIE's SDK whatever the caller can fix is 400."""
    return InvalidInput.status if SDK_HEADER in headers and status == 422 else status


def wire_version(headers: Mapping[str, str]) -> str:
    """Return the version of the API that is spoken with this SDK; ours where none called."""
    minor = ".".join(headers.get(SDK_HEADER, "").split(".")[:2])
    return _SPOKEN.get(minor, sie_mcp.__version__)
