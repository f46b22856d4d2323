"""How a request ends: its caller has the answer, once; or it is buried with the reason."""

from collections.abc import Mapping

from sie_mcp import metrics
from sie_mcp.broker.broker import Broker
from sie_mcp.broker.job_records import JobRecord
from sie_mcp.broker.messages import BODY, ID, REASON, REPLY, Answer, name_of, pack
from sie_mcp.broker.names import Kind, dead_subject

# What the broker and the answer's own way need; a buried message has no use for it.
_OF_THE_BROKER = "Nats-"


async def settle(broker: Broker, kind: Kind, headers: Mapping[str, str], answer: Answer) -> None:
    """Give a request's answer to whoever asked; a second one to the same request is dropped.

    Args:
        broker: That it came by.
        kind: Calls are answered where they say; jobs by their record.
        headers: Of the request.
        answer: What to say.
    """
    name = name_of(headers)
    data, body = pack(answer), None
    if len(data) > broker.inline_bytes:
        body = f"{name}.answer"
        await broker.keep(kind, body, data)
        data = b""
    if kind == "jobs":
        await _settle_job(broker, name, data, body)
    elif reply := headers.get(REPLY):
        # The gateway takes the first answer to what still waits.
        await broker.say(reply, data, {ID: name} | ({BODY: body} if body else {}))


async def _settle_job(broker: Broker, name: str, data: bytes, body: str | None) -> None:
    found = await broker.record(name)
    if found is None:
        return
    record = JobRecord.unpack(found.value)
    if record.state == "waiting":
        # Lost only to another answer, or to whoever cancelled it.
        await broker.next_record(name, record.ended(data, body).pack(), found)


async def is_wanted(broker: Broker, kind: Kind, headers: Mapping[str, str]) -> bool:
    """Whether a request still waits for an answer, as far as can be known: of jobs only."""
    if kind == "calls":
        return True
    found = await broker.record(name_of(headers))
    return found is not None and JobRecord.unpack(found.value).state == "waiting"


async def bury(
    broker: Broker,
    pool: str,
    token: str,
    data: bytes,
    headers: Mapping[str, str],
    *,
    name: str,
    reason: str,
    why: str,
) -> None:
    """Put a request where people look for what could not be done.

    Args:
        broker: That it came by.
        pool: That it was for.
        token: Of its model.
        data: The request, as it was sent.
        headers: The same.
        name: By which the same is buried once.
        reason: For the figures.
        why: For people.
    """
    kept = {key: value for key, value in headers.items() if not key.startswith(_OF_THE_BROKER)}
    await broker.put(dead_subject(pool, token), data, kept | {ID: name, REASON: why})
    metrics.QUEUE_DEAD_LETTERS.labels(reason).inc()
