"""Requests that nobody waits for on an open line: `Prefer: respond-async`, then `/v1/jobs/{id}`.

Job and result lie with the broker: whichever gateway is asked later can tell.
"""

import hashlib
import time
import uuid
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sie_mcp.access.gate import error_response
from sie_mcp.broker.broker import Broker, Record
from sie_mcp.broker.job_records import JobRecord
from sie_mcp.broker.messages import DEADLINE, ID, Answer, Call, pack, unpack_answer
from sie_mcp.broker.names import subject_of
from sie_mcp.connection import Want
from sie_mcp.errors import DeadlineExceeded, InvalidInput, JobNotFound, SieError
from sie_mcp.gateway.queued.endpoint import QueueEndpoint
from sie_mcp.gateway.queued.sender import give_up, put_body
from sie_mcp.tools.context import caller_name

PATH = "/v1/jobs/{name}"
MAX_KEY_CHARS = 200
ASK_AGAIN_S = 1


@dataclass(frozen=True, slots=True)
class Job:
    """A request that is to become one."""

    call: Call
    want: Want
    owner: str
    key: str | None
    timeout_s: float | None


def is_asked_for(request: Request) -> bool:
    """Whether the caller would rather have a job than wait (RFC 7240)."""
    wishes = request.headers.get("Prefer", "").split(",")
    return any(wish.strip().lower() == "respond-async" for wish in wishes)


def read_timeout(said: str | None) -> float | None:
    """Return how long a job may take, as X-SIE-Timeout says.

    Raises:
        InvalidInput: that is not a number of seconds.
    """
    if said is None:
        return None
    try:
        seconds = float(said)
    except ValueError as error:
        raise InvalidInput(f"X-SIE-Timeout {said[:40]!r} is not a number of seconds") from error
    if not 0 < seconds < float("inf"):
        raise InvalidInput(f"X-SIE-Timeout {said[:40]!r} is not a number of seconds above 0")
    return seconds


class Jobs:
    """Jobs of all pools.

    Args:
        endpoint: Knows the pools and the broker.
    """

    def __init__(self, endpoint: QueueEndpoint) -> None:
        self._endpoint = endpoint
        self._broker: Broker = endpoint.broker

    async def submit(self, job: Job) -> Response:
        """Put a job into its pool's stream: 202, and where to ask for it.

        The same key of the same caller is the same job, whatever gateway hears of it.

        Raises:
            BacklogFull: the stream holds as much as it may.
            BrokerUnavailable: the broker does not answer; nothing is promised.
        """
        found = self._endpoint.place(job.want)
        if found is None:
            raise InvalidInput("the model's name is too long for a job; leave Prefer out")
        pool, token = found
        name = _name(job)
        ttl_s = self._broker.bounds.job_ttl_s
        deadline_s = time.time() + min(job.timeout_s or ttl_s, ttl_s)
        record = JobRecord("waiting", job.owner, pool.name, deadline_s)
        if await self._begin(name, record):
            await self._endpoint.expect(pool, token)
            headers = {ID: name, DEADLINE: f"{deadline_s:.3f}"}
            try:
                data = await put_body(self._broker, "jobs", name, pack(job.call), headers)
                await self._broker.put(subject_of("jobs", pool.name, "work", token), data, headers)
            except SieError:
                await self._refuse(name)
                raise
        return _accepted(name)

    async def handle(self, request: Request) -> Response:
        """Answer GET and DELETE of one job."""
        name = request.path_params["name"]
        try:
            found, record = await self._read(name, caller_name(request))
            if request.method == "DELETE":
                return await self._cancel(name, found, record)
            return await self._show(name, record)
        except SieError as error:
            return error_response(error)

    async def _begin(self, name: str, record: JobRecord) -> bool:
        """Write a job's first record; False where the job has ended before."""
        if await self._broker.new_record(name, record.pack()):
            return True
        found, there = await self._read(name, record.owner)
        if there.state == "refused":
            return await self._broker.next_record(name, record.pack(), found)
        # Whoever wrote it may have ended before it sent it; what is sent twice is put once.
        return there.state == "waiting"

    async def _read(self, name: str, owner: str) -> tuple[Record, JobRecord]:
        found = await self._broker.record(name) if name.isalnum() else None
        record = JobRecord.unpack(found.value) if found is not None else None
        if found is None or record is None or record.owner != owner:
            raise JobNotFound(
                f"no job {name[:40]!r} of yours; ended ones are kept for a while only"
            )
        return found, record

    async def _show(self, name: str, record: JobRecord) -> Response:
        if record.state == "waiting" and time.time() < record.deadline_s:
            return _accepted(name)
        if record.state == "waiting":
            raise DeadlineExceeded(f"job {name} was not run before its deadline")
        if record.state != "done":
            raise JobNotFound(f"job {name} was {record.state}")
        data = record.answer
        if record.body is not None:
            data = await self._broker.kept("jobs", record.body) or b""
            if not data:
                raise JobNotFound(f"the result of job {name} is not kept any more")
        return _response(unpack_answer(data))

    async def _cancel(self, name: str, found: Record, record: JobRecord) -> Response:
        if record.state == "waiting":
            await self._broker.next_record(name, record.now("cancelled").pack(), found)
            # A worker that has not begun sees the record; one that has is told.
            await give_up(self._broker, record.pool, name, None)
        return Response(status_code=204)

    async def _refuse(self, name: str) -> None:
        """Let the caller send it again."""
        found = await self._broker.record(name)
        if found is not None:
            record = JobRecord.unpack(found.value).now("refused")
            await self._broker.next_record(name, record.pack(), found)


def _name(job: Job) -> str:
    if job.key is None:
        return uuid.uuid4().hex
    if len(job.key) > MAX_KEY_CHARS:
        raise InvalidInput(f"Idempotency-Key has more than {MAX_KEY_CHARS} characters")
    return hashlib.blake2b(f"{job.owner}\0{job.key}".encode(), digest_size=16).hexdigest()


def _accepted(name: str) -> Response:
    headers = {"Location": PATH.format(name=name), "Retry-After": str(ASK_AGAIN_S)}
    return JSONResponse({"id": name, "state": "waiting"}, 202, headers)


def _response(answer: Answer) -> Response:
    response = Response(answer.body, answer.status)
    for name, value in answer.headers:
        if name.lower() != "content-length":
            response.headers[name] = value
    return response
