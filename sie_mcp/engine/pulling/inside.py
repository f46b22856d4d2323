"""A worker's own routes called from inside: what was pulled is answered as what came over HTTP."""

import httpx2
from starlette.types import ASGIApp

from sie_mcp.broker.messages import Answer, Call

# The gate stands before it: whoever may put messages into the streams may run models.
BASE_URL = "http://pulled"


class Inside:
    """Runs calls.

    Args:
        app: The worker's, without its gate.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app), base_url=BASE_URL, timeout=None
        )

    async def run(self, call: Call, left_s: float | None) -> Answer:
        """Return the answer. Cancelled, it ends the work.

        Args:
            call: What is asked.
            left_s: Until its caller waits no more: as long a load is waited for too.
        """
        # What is not ASCII in them would else be refused by this client.
        headers = httpx2.Headers(list(call.headers), encoding="utf-8")
        # Whoever reads the answer may not be who asked: a job's result is read later, by anybody's
        # client. Where nothing is said, this client would ask for gzip.
        headers["Accept-Encoding"] = "identity"
        if left_s is not None:
            headers["X-SIE-Timeout"] = headers["X-SIE-Load-Wait"] = f"{max(left_s, 0.001):.3f}"
        response = await self._client.request(
            call.method, call.path, content=call.body, headers=headers
        )
        return Answer(response.status_code, tuple(response.headers.multi_items()), response.content)

    async def aclose(self) -> None:
        """Close the client."""
        await self._client.aclose()
