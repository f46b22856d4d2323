"""One request over HTTP, once: no retries, so that every refusal is seen. What came back, how soon.

Knows HTTP and the wire contract; knows nothing of traffic or workers.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote

import httpx2

from evals.stress.traffic import Job
from sie_mcp import wire
from sie_mcp.answer import read_answer
from sie_mcp.chunks import check_complete
from sie_mcp.codec import MSGPACK
from sie_mcp.errors import SieError

OK = "ok"
NO_ANSWER = "no answer"
_ANSWERS: dict[str, type[wire.Response]] = {
    "encode": wire.EncodeResponse,
    "score": wire.ScoreResponse,
    "extract": wire.ExtractResponse,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request.

    Attributes:
        code: "ok"; the code of a typed error; else what was wrong with the answer.
        at_s: When it was sent, monotonic.
        seconds: Until the whole answer was there.
        status: HTTP; 0 without an answer.
        retry_after: The header as it came.
        num_items: Items that have a result.
    """

    model: str
    code: str
    at_s: float
    seconds: float
    status: int = 0
    retry_after: str | None = None
    num_items: int = 0


class Caller:
    """Sends requests to one worker; safe for many tasks at once.

    Args:
        base_url: The worker's.
        patience_s: Longest wait for one answer; then it counts as none.
        load_wait_s: How long the worker may hold a request while its model comes up.
    """

    def __init__(self, base_url: str, *, patience_s: float, load_wait_s: float) -> None:
        self._patience_s = patience_s
        self._http = httpx2.AsyncClient(
            base_url=base_url,
            timeout=httpx2.Timeout(None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=512),
            headers={
                "Accept": MSGPACK,
                "Content-Type": MSGPACK,
                "X-SIE-Load-Wait": f"{load_wait_s:g}",
            },
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def call(self, job: Job) -> Outcome:
        """Send a request and say what became of it."""
        outcome, _ = await self.ask(job)
        return outcome

    async def ask(self, job: Job) -> tuple[Outcome, wire.Response | None]:
        """The same, with the answer where there is one."""
        path = f"/v1/{job.model.primitive}/{quote(str(job.model.folder), safe='')}"
        at_s = time.monotonic()
        try:
            async with asyncio.timeout(self._patience_s):
                response = await self._http.post(path, content=job.content)
        except TimeoutError:
            return Outcome(job.model.name, NO_ANSWER, at_s, time.monotonic() - at_s), None
        except httpx2.RequestError as error:
            code = f"connection {type(error).__name__}"
            return Outcome(job.model.name, code, at_s, time.monotonic() - at_s), None
        seconds = time.monotonic() - at_s
        code, num_items, answer = _read(job, response)
        retry_after = response.headers.get("Retry-After")
        outcome = Outcome(
            job.model.name, code, at_s, seconds, response.status_code, retry_after, num_items
        )
        return outcome, answer


def _read(job: Job, response: httpx2.Response) -> tuple[str, int, wire.Response | None]:
    """Return the answer's code, how many items have a result, and the answer."""
    if response.status_code >= 400:
        code = response.headers.get("X-SIE-Error-Code", f"untyped {response.status_code}")
        return code, 0, None
    try:
        answer = read_answer(response, _ANSWERS[job.model.primitive])
        check_complete(answer, job.num_items)
    except SieError as error:
        return f"unreadable: {error}", 0, None
    results = answer.scores if isinstance(answer, wire.ScoreResponse) else answer.items
    failed = [one.error.code for one in results if one.error is not None]
    return f"item {failed[0]}" if failed else OK, len(results) - len(failed), answer
