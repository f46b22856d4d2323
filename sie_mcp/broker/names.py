"""Names of streams, subjects and consumers, from pools and models. Pure.

A pool has two streams: `calls`, whose callers wait, and `jobs`, whose results are kept. A stream
has two lanes for each model: `work`, and `alone` for what was in a worker's hand when it ended.
"""

from typing import Literal
from urllib.parse import quote, unquote

Kind = Literal["calls", "jobs"]
Lane = Literal["work", "alone"]
KINDS: tuple[Kind, ...] = ("calls", "jobs")
LANES: tuple[Lane, ...] = ("work", "alone")

# The broker takes 255 for a consumer; the lane and the mark of a server's own come on top.
MAX_TOKEN_CHARS = 200
# Quoting leaves none of it in a name.
LORA_MARK = "+"
DEAD_STREAM = "SIE_DEAD"
DEAD_SUBJECTS = "sie.dead.>"
JOBS_BUCKET = "sie_jobs"


def token_of(model: str, lora: str | None = None) -> str | None:
    """Return what stands for a model, and a LoRA on it, in a subject; None if it is too long."""
    token = _part(model) if lora is None else f"{_part(model)}{LORA_MARK}{_part(lora)}"
    return token if model and len(token) <= MAX_TOKEN_CHARS else None


def model_of(token: str) -> tuple[str, str | None]:
    """Return the model and the LoRA that a token stands for."""
    model, mark, lora = token.partition(LORA_MARK)
    return unquote(model), unquote(lora) if mark else None


def stream_of(kind: Kind, pool: str) -> str:
    """Return the stream of a pool."""
    return f"SIE_{kind.upper()}_{_part(pool)}"


def subjects_of(kind: Kind, pool: str) -> str:
    """Return all subjects of a stream, as one pattern."""
    return f"sie.{kind}.{_part(pool)}.>"


def subject_of(kind: Kind, pool: str, lane: Lane, token: str) -> str:
    """Return where the requests for a model are put."""
    return f"sie.{kind}.{_part(pool)}.{lane}.{token}"


def token_in(subject: str) -> str:
    """Return the token at the end of a subject."""
    return subject.rpartition(".")[2]


def consumer_of(lane: Lane, token: str) -> str:
    """Return the consumer that hands out one lane of a model."""
    return f"{lane}-{token}"


def cancel_subject(pool: str) -> str:
    """Return where workers of a pool hear of requests that nobody waits for any more."""
    return f"sie.cancel.{_part(pool)}"


def dead_subject(pool: str, token: str) -> str:
    """Return where requests for a model are buried."""
    return f"sie.dead.{_part(pool)}.{token}"


def deaths_stream(pool: str) -> str:
    """Return the stream of what the broker says of requests that it gave up on."""
    return f"SIE_DEATHS_{_part(pool)}"


def deaths_subject(kind: Kind, pool: str) -> str:
    """Return where the broker itself says that a request was delivered too often."""
    return f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream_of(kind, pool)}.*"


def bodies_bucket(kind: Kind) -> str:
    """Return where bodies lie that are too large for a message."""
    return f"sie_{kind}_bodies"


def _part(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")
