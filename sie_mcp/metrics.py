"""Every metric, declared once. A label never holds a value that a caller chooses."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

REQUESTS = Counter(
    "sie_requests_total", "Requests answered.", ["primitive", "code"], registry=REGISTRY
)
REQUEST_SECONDS = Histogram(
    "sie_request_seconds", "Time from body read to answer.", ["primitive"], registry=REGISTRY
)
REQUESTS_IN_FLIGHT = Gauge("sie_requests_in_flight", "Requests being served.", registry=REGISTRY)
QUEUE_TOKENS = Gauge(
    "sie_queue_tokens",
    "Tokens waiting for a device.",
    ["priority", "device"],
    registry=REGISTRY,
)  # priority: interactive, bulk
QUEUE_SEQUENCES = Gauge(
    "sie_queue_sequences", "Sequences waiting for a device.", ["device"], registry=REGISTRY
)
QUEUE_SECONDS = Histogram(
    "sie_queue_seconds",
    "Time a request's sequences waited for the device, once for each batch they are in.",
    registry=REGISTRY,
)
REFUSED = Counter(
    "sie_refused_total", "Requests refused because too much waits.", ["reason"], registry=REGISTRY
)  # reason: queue_full, rate_limit
CANCELLED = Counter(
    "sie_cancelled_total",
    "Sequences that had not started when their caller gave them up.",
    registry=REGISTRY,
)
EXPIRED = Counter(
    "sie_expired_total",
    "Sequences that had not started when their deadline passed.",
    registry=REGISTRY,
)
BATCH_TOKENS = Histogram(
    "sie_batch_tokens",
    "Real tokens of a batch.",
    buckets=[16, 64, 256, 1024, 4096, 16384, 65536],
    registry=REGISTRY,
)
BATCH_SECONDS = Histogram("sie_batch_seconds", "Time of a forward pass.", registry=REGISTRY)
FAST_PATHS_OFF = Counter(
    "sie_fast_paths_off_total",
    "Faster ways to compute that failed their check and are not taken.",
    ["path"],
    registry=REGISTRY,
)  # path: kernels, graphs, overlap
CALIBRATIONS_FAILED = Counter(
    "sie_calibrations_failed_total",
    "Models whose best batch could not be measured while idle; the default is theirs.",
    registry=REGISTRY,
)
TOKENS = Counter("sie_tokens_total", "Tokens that ran.", registry=REGISTRY)
MODEL_LOADS = Counter("sie_model_loads_total", "Loads tried.", ["outcome"], registry=REGISTRY)
MODEL_LOAD_SECONDS = Histogram(
    "sie_model_load_seconds", "Time of a load, download included.", registry=REGISTRY
)
MODEL_SWAPS = Counter(
    "sie_model_swaps_total",
    "Models brought back from host memory.",
    ["outcome"],
    registry=REGISTRY,
)
MODEL_SWAP_SECONDS = Histogram(
    "sie_model_swap_seconds",
    "Time from the start of a copy from host memory to its end.",
    buckets=[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2],
    registry=REGISTRY,
)
MODEL_EVICTIONS = Counter("sie_model_evictions_total", "Models evicted.", registry=REGISTRY)
MODEL_SHORT_STAYS = Counter(
    "sie_model_short_stays_total",
    "Evictions of models that had worked for less time than their load took.",
    registry=REGISTRY,
)
STAY_TOKENS = Histogram(
    "sie_model_stay_tokens",
    "Tokens that a model ran between its load and its eviction.",
    buckets=[0, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000],
    registry=REGISTRY,
)
STAY_REQUESTS = Histogram(
    "sie_model_stay_requests",
    "Requests that a model answered between its load and its eviction.",
    buckets=[0, 1, 3, 10, 30, 100, 1_000, 10_000],
    registry=REGISTRY,
)
MODELS_RESIDENT = Gauge("sie_models_resident", "Models on a device.", ["device"], registry=REGISTRY)
MEMORY_BYTES = Gauge(
    "sie_memory_bytes", "Memory account of a device.", ["kind", "device"], registry=REGISTRY
)  # kind: budget, reserved, resident, free, host_budget, host
OUT_OF_MEMORY = Counter(
    "sie_out_of_memory_total", "Out-of-memory steps taken.", ["step"], registry=REGISTRY
)
NONFINITE_RETRIES = Counter(
    "sie_nonfinite_retries_total",
    "Sequences whose numbers were not finite and that ran again in float32.",
    registry=REGISTRY,
)
TOOL_CALLS = Counter(
    "sie_tool_calls_total", "Tool calls answered.", ["tool", "outcome"], registry=REGISTRY
)
TOOL_SECONDS = Histogram("sie_tool_seconds", "Time of a tool call.", ["tool"], registry=REGISTRY)
TOOL_ITEMS = Counter(
    "sie_tool_items_total", "Items that tool calls sent to a worker.", ["tool"], registry=REGISTRY
)
TOOL_TOKENS = Counter(
    "sie_tool_tokens_total", "Tokens that ran for tool calls.", ["tool"], registry=REGISTRY
)
TOOL_ANSWER_TOKENS = Histogram(
    "sie_tool_answer_tokens",
    "About what an agent reads of an answer, at four characters a token.",
    ["tool"],
    buckets=[50, 100, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000],
    registry=REGISTRY,
)
TASKS = Counter(
    "sie_tasks_total", "Tool calls that became tasks and ended.", ["outcome"], registry=REGISTRY
)  # outcome: completed, failed, cancelled
WORKER_STARTS = Counter(
    "sie_worker_starts_total", "Local workers started by this gateway.", registry=REGISTRY
)
POOL_DEMAND = Gauge(
    "sie_pool_demand",
    "Requests that run in a pool or wait for it; at least 1 for 30 s after the last one.",
    ["pool"],
    registry=REGISTRY,
)
POOL_WAITING = Gauge(
    "sie_pool_waiting", "Requests that no worker has yet.", ["pool"], registry=REGISTRY
)
POOL_WORKERS = Gauge("sie_pool_workers", "Workers of a pool.", ["pool", "state"], registry=REGISTRY)
# state: known, ready
POOL_PICKS = Counter(
    "sie_pool_picks_total",
    "Requests given to a worker, by how workers had the model.",
    ["pool", "kind"],
    registry=REGISTRY,
)  # kind: resident, cold
POOL_PREFETCHES = Counter(
    "sie_pool_prefetches_total",
    "Further copies that workers were asked to load.",
    ["pool", "outcome"],
    registry=REGISTRY,
)  # outcome: asked, refused, unreachable
QUEUE_PENDING = Gauge(
    "sie_queue_pending", "Requests in a pool's streams.", ["pool"], registry=REGISTRY
)
QUEUE_CALLS = Counter(
    "sie_queue_calls_total", "Requests sent by the broker.", ["pool", "outcome"], registry=REGISTRY
)  # outcome: answered, failed
QUEUE_WAIT_SECONDS = Histogram(
    "sie_queue_wait_seconds",
    "Time from when a request was put into a stream until a worker ran it.",
    buckets=[0.005, 0.02, 0.1, 0.5, 2, 10, 60, 600, 3_600, 86_400],
    registry=REGISTRY,
)
QUEUE_REDELIVERED = Counter(
    "sie_queue_redelivered_total",
    "Requests that came once more: their worker ended, or handed them back.",
    ["lane"],
    registry=REGISTRY,
)  # lane: work, alone
QUEUE_EXPIRED = Counter(
    "sie_queue_expired_total", "Requests that were pulled too late to run.", registry=REGISTRY
)
QUEUE_DEAD_LETTERS = Counter(
    "sie_queue_dead_letters_total", "Requests that were given up.", ["reason"], registry=REGISTRY
)
for _reason in ("runs", "unreadable"):
    # There from the start: of a series that begins at 1 nobody sees that it grew.
    QUEUE_DEAD_LETTERS.labels(_reason)
KEY_FILE_OK = Gauge(
    "sie_key_file_ok", "1 while the keys in use are those of the file.", registry=REGISTRY
)
LIMITED = Counter(
    "sie_limited_total", "Calls over a limit of their caller.", ["reason"], registry=REGISTRY
)  # reason: requests, tokens, concurrent
NOT_AUTHENTICATED = Counter(
    "sie_not_authenticated_total", "Requests turned away at the gate.", ["code"], registry=REGISTRY
)  # code: 401, 403, 503
CACHE_ITEMS = Counter(
    "sie_embedding_cache_items_total",
    "Items of requests that the cache of vectors was asked for.",
    ["outcome"],
    registry=REGISTRY,
)  # outcome: hit, miss
CACHE_BYTES = Gauge(
    "sie_embedding_cache_bytes", "Vectors kept by the cache, in bytes.", registry=REGISTRY
)
CACHE_FAILURES = Counter(
    "sie_embedding_cache_failures_total",
    "Times that the cache's file could not be used, or began anew.",
    ["kind"],
    registry=REGISTRY,
)  # kind: unavailable, damaged
