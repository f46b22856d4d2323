"""Every error the project raises on purpose, with its HTTP status and whether a retry can help.

SieError
├── InvalidInput            400  the caller can fix it
│   ├── InvalidImage        422  no picture that can be read, or one too large
│   ├── InputTooLong        422  longer than a limit, and truncation was refused
│   └── BodyTooLarge        413  the request's body is over max_body_bytes
├── NotAllowed              403  a setting keeps callers from this
│   └── NotAuthenticated    401  no credential, or one that is not good here
├── ModelInUse              409  requests hold the model; say how long to wait for them
├── ModelNotFound           404  no catalogue entry, folder or hub repository of that name
├── JobNotFound             404  no job of that id, or not of this caller
├── ModelLoading            503  retry: the load goes on
├── ModelLoadFailed         502  the checkpoint is wrong or unsupported; names the file
│   ├── ModelTooLarge       502  bigger than the whole memory budget
│   └── DownloadFailed      502  no source could deliver the files
│       ├── ModelGated      502  its terms must be accepted, or a login is missing
│       └── DiskFull        507  the cache folder has no room for them
├── IssuerUnavailable       503  retry: the keys that tokens are checked with cannot be had
├── QueueFull               503  retry: admission limit reached
│   └── BacklogFull         429  retry: a stream of the broker holds as much as it may
├── RateLimited             429  retry: this client has too much waiting
├── OutOfMemory             503  retry: this item did not fit now
├── DeadlineExceeded        504  retry: the work did not finish in time
├── WorkerUnavailable       503  retry: the worker is starting, restarting or gone
│   └── WorkerLost          503  retry: once, the worker ended with this request in hand
├── BrokerUnavailable       503  retry: the broker that requests go by does not answer
├── StoreUnavailable        503  retry: what the replicas share does not answer
├── InferenceError          500  the forward pass failed for this item
├── NonFiniteOutput         500  this item's numbers outgrow the dtype
├── SettingError            500  a setting cannot be used; stops the start
└── ConfigurationRefused    500  a client's configuration cannot be changed without a loss
"""

from typing import ClassVar


class SieError(Exception):
    """Base of all errors. `str(error)` is safe to show to the caller.

    Attributes:
        retry_after_s: Seconds after which a retry makes sense; None where a retry cannot help.
    """

    code: ClassVar[str] = "INTERNAL_ERROR"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        if retry_after_s is None and self.retryable:
            retry_after_s = 1.0
        self.retry_after_s = retry_after_s


class InvalidInput(SieError):
    """The request is wrong; the message says what would work."""

    code = "INVALID_INPUT"
    status = 400


class InvalidImage(InvalidInput):
    """An image is of no known format, broken, or too large to unpack; others are not affected."""

    code = "INVALID_IMAGE"
    status = 422


class InputTooLong(InvalidInput):
    """An item is longer than the limit and the caller refused truncation."""

    code = "INPUT_TOO_LONG"
    status = 422


class BodyTooLarge(InvalidInput):
    """The body is over max_body_bytes; fewer items at once would work."""

    code = "BODY_TOO_LARGE"
    status = 413


class NotAllowed(SieError):
    """The server is set not to do this for its callers; the message names the setting."""

    code = "NOT_ALLOWED"
    status = 403


class NotAuthenticated(NotAllowed):
    """It cannot be told who calls; the message says what is wrong with the credential."""

    code = "NOT_AUTHENTICATED"
    status = 401


class ModelInUse(SieError):
    """Requests hold the model; `wait_s` in the body would wait for them."""

    code = "MODEL_IN_USE"
    status = 409


class ModelNotFound(SieError):
    """No source knows a model of this name."""

    code = "MODEL_NOT_FOUND"
    status = 404


class JobNotFound(SieError):
    """There is no such job of this caller, or it was cancelled, or its result has expired."""

    code = "JOB_NOT_FOUND"
    status = 404


class ModelLoading(SieError):
    """The model is being fetched or loaded; the load continues after this error."""

    code = "MODEL_LOADING"
    status = 503
    retryable = True


class ModelLoadFailed(SieError):
    """The model's files cannot be served; the message names the file and the reason."""

    code = "MODEL_LOAD_FAILED"
    status = 502


class ModelTooLarge(ModelLoadFailed):
    """The model alone exceeds the memory budget; nothing was evicted for it."""

    code = "MODEL_TOO_LARGE"


class DownloadFailed(ModelLoadFailed):
    """No source delivered the model's files; the message names the command to run."""

    code = "DOWNLOAD_FAILED"


class ModelGated(DownloadFailed):
    """The hub gives the files to those who accepted the model's terms; the message says how."""

    code = "MODEL_GATED"


class DiskFull(DownloadFailed):
    """The cache folder has no room for the files; the message says where, and how much it takes."""

    code = "DISK_FULL"
    status = 507


class IssuerUnavailable(SieError):
    """The issuer of tokens does not answer, so that none of them can be checked."""

    code = "ISSUER_UNAVAILABLE"
    status = 503
    retryable = True


class QueueFull(SieError):
    """Too much work is waiting already."""

    code = "QUEUE_FULL"
    status = 503
    retryable = True


class BacklogFull(QueueFull):
    """A pool's stream holds as much as it may; nothing was put there."""

    code = "BACKLOG_FULL"
    status = 429


class RateLimited(SieError):
    """This client has too much work waiting already; others are not affected."""

    code = "RATE_LIMIT"
    status = 429
    retryable = True


class OutOfMemory(SieError):
    """The device had no memory for this item, even alone."""

    code = "RESOURCE_EXHAUSTED"
    status = 503
    retryable = True


class DeadlineExceeded(SieError):
    """The work did not finish within the caller's or the server's deadline."""

    code = "DEADLINE_EXCEEDED"
    status = 504
    retryable = True


class WorkerUnavailable(SieError):
    """No worker answers: it is starting, restarting, draining or gone."""

    code = "WORKER_UNAVAILABLE"
    status = 503
    retryable = True


class WorkerLost(WorkerUnavailable):
    """The worker ended while it ran this request, which may be why: a second time is the last."""

    code = "WORKER_LOST"


class BrokerUnavailable(SieError):
    """The broker that requests go by does not answer; those over HTTP are not affected."""

    code = "BROKER_UNAVAILABLE"
    status = 503
    retryable = True


class StoreUnavailable(SieError):
    """The store of results and tasks that the replicas share does not answer."""

    code = "STORE_UNAVAILABLE"
    status = 503
    retryable = True


class InferenceError(SieError):
    """The forward pass failed for this item; others are not affected."""

    code = "INFERENCE_ERROR"


class NonFiniteOutput(SieError):
    """The model's numbers for this item are infinite or not numbers; others are not affected."""

    code = "non_finite_output"


class SettingError(SieError):
    """A setting is unknown or cannot be used; raised before anything starts."""

    code = "SETTING_ERROR"


class ConfigurationRefused(SieError):
    """A client's configuration file cannot be read, or not be changed without losing something."""

    code = "CONFIGURATION_REFUSED"


def error_classes() -> dict[str, type[SieError]]:
    """Return every error class by its code, to rebuild an error from the wire."""
    classes: dict[str, type[SieError]] = {}
    waiting: list[type[SieError]] = [SieError]
    while waiting:
        cls = waiting.pop()
        classes[cls.code] = cls
        waiting.extend(cls.__subclasses__())
    return classes
