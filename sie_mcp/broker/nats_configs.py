"""What streams, consumers and buckets are like: one place, so that all gateways agree.

Streams of work are queues: what is acknowledged is gone. Beyond a bound a message is refused, never
another dropped for it.
"""

from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    KeyValueConfig,
    ObjectStoreConfig,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from sie_mcp.broker.broker import Bounds
from sie_mcp.broker.names import (
    DEAD_STREAM,
    DEAD_SUBJECTS,
    JOBS_BUCKET,
    KINDS,
    Kind,
    Lane,
    bodies_bucket,
    consumer_of,
    deaths_stream,
    deaths_subject,
    stream_of,
    subject_of,
    subjects_of,
)

# Runs of one request, its first included, before it is given up: it may be what ends workers.
MAX_RUNS = 5
# A call's caller waits for less than that.
CALL_MAX_AGE_S = 3_600.0
# The same id within this time is the same message.
DUPLICATES_S = 120.0
# Consumers of models that nobody asks for any more.
UNUSED_S = 3_600.0
DEAD_DAYS = 7
MAX_DEAD = 10_000
DEATHS_CONSUMER = "buriers"
BURY_WITHIN_S = 30.0


def work_stream(kind: Kind, pool: str, bounds: Bounds) -> StreamConfig:
    """Return the stream of a pool: in memory for calls, on disk for jobs."""
    is_job = kind == "jobs"
    return StreamConfig(
        name=stream_of(kind, pool),
        subjects=[subjects_of(kind, pool)],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=_storage(kind),
        num_replicas=bounds.replicas if is_job else 1,
        discard=DiscardPolicy.NEW,
        max_msgs=bounds.max_messages,
        max_bytes=bounds.max_bytes,
        # A job that is pulled too late is answered; one that nobody pulls leaves some time after.
        max_age=bounds.job_ttl_s * 2 if is_job else CALL_MAX_AGE_S,
        duplicate_window=DUPLICATES_S,
    )


def lane_consumer(
    kind: Kind, pool: str, lane: Lane, token: str, bounds: Bounds, *, stays: bool
) -> ConsumerConfig:
    """Return what hands out one lane of a model, to whoever pulls it.

    What comes alone has run once already, and is out with one worker at a time.
    """
    is_alone = lane == "alone"
    return ConsumerConfig(
        durable_name=consumer_of(lane, token),
        filter_subject=subject_of(kind, pool, lane, token),
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=bounds.ack_wait_s,
        max_deliver=MAX_RUNS - 1 if is_alone else MAX_RUNS,
        max_ack_pending=1 if is_alone else bounds.max_messages,
        inactive_threshold=None if stays else UNUSED_S,
        num_replicas=0,
    )


def deaths(pool: str) -> StreamConfig:
    """Return the stream in which it waits what the broker says of its own accord."""
    return StreamConfig(
        name=deaths_stream(pool),
        subjects=[deaths_subject(kind, pool) for kind in KINDS],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        max_msgs=MAX_DEAD,
    )


def deaths_consumer() -> ConsumerConfig:
    """Return what hands those out to gateways."""
    return ConsumerConfig(
        durable_name=DEATHS_CONSUMER, ack_policy=AckPolicy.EXPLICIT, ack_wait=BURY_WITHIN_S
    )


def dead_stream(bounds: Bounds) -> StreamConfig:
    """Return the stream of requests that were given up: one for all pools, the oldest leave."""
    return StreamConfig(
        name=DEAD_STREAM,
        subjects=[DEAD_SUBJECTS],
        storage=StorageType.FILE,
        num_replicas=bounds.replicas,
        max_msgs=MAX_DEAD,
        max_bytes=bounds.max_bytes,
        max_age=DEAD_DAYS * 86_400,
        duplicate_window=DUPLICATES_S,
    )


def bodies(kind: Kind, bounds: Bounds) -> ObjectStoreConfig:
    """Return the store of bodies that no message can hold."""
    is_job = kind == "jobs"
    return ObjectStoreConfig(
        bucket=bodies_bucket(kind),
        storage=_storage(kind),
        replicas=bounds.replicas if is_job else 1,
        ttl=bounds.job_ttl_s * 2 if is_job else CALL_MAX_AGE_S,
        max_bytes=bounds.max_bytes,
    )


def records(bounds: Bounds) -> KeyValueConfig:
    """Return the store of jobs' records."""
    return KeyValueConfig(
        bucket=JOBS_BUCKET,
        storage=StorageType.FILE,
        replicas=bounds.replicas,
        ttl=bounds.job_ttl_s * 2,
        max_bytes=bounds.max_bytes,
    )


def _storage(kind: Kind) -> StorageType:
    return StorageType.FILE if kind == "jobs" else StorageType.MEMORY
