"""Chaos: a worker killed under load, out of memory, loads that fail, a poisoned text in each call.

Half of the callers go the way of the product's own tools, through the client that tries again; half
send one HTTP request through the gateway's proxy and never a second. Both share one supervisor of
one local worker. Every result is held against the same model in this process, undisturbed.
"""

import asyncio
import contextlib
import functools
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
from starlette.applications import Starlette
from starlette.routing import Route

from evals.stress.calls import NO_ANSWER, Caller
from evals.stress.faulty_worker import FLAKY, FLOOD, POISON
from evals.stress.models import Model, Shape, make
from evals.stress.options import Options
from evals.stress.report import Claimed, Report, quantiles
from evals.stress.traffic import Job, request
from evals.stress.verdicts import QUERY, Record, Truth, check, note_error, truth_of
from evals.stress.worker import ROOT
from sie_mcp import wire
from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import Address
from sie_mcp.errors import SieError, error_classes
from sie_mcp.gateway.incoming import BodyLimits
from sie_mcp.gateway.lock import read_note
from sie_mcp.gateway.proxy import Proxy
from sie_mcp.gateway.supervisor import LocalWorker
from tests.servers import serving

KILLS, CLIENTS = 10, 8
# Between two kills so many calls are answered for each caller.
ANSWERS_EACH = 3
# A worker that is being killed may still take a call.
DYING_S = 0.5
OOM_EVERY = 10
PATIENCE_S, LIMIT_S = 120.0, 900.0
MAX_BODY_BYTES = 1_000_000
Ask = Callable[[Job], Awaitable[wire.Response]]
_ROLES = (
    Shape("dense"),
    Shape("other", "distilbert"),
    Shape("scores", kind="cross_encoder"),
    Shape("topics", kind="classification"),
    Shape(FLAKY, layers=1),
)


async def run(options: Options) -> Report:
    """Keep callers calling until the last kill has been outlived."""
    kills = options.requests or (2 if options.tiny else KILLS)
    num_clients = options.clients or CLIENTS
    models = [make(one, options.work / one.name, dtype=options.dtype) for one in _ROLES]
    # Half precision on a device; unit vectors, probabilities and logits of about 1.
    truth = truth_of(models, seed=options.seed, tolerance=0.1 if options.gpu else 1e-4)
    endpoint = LocalWorker(_config(options), _command())
    record, done = Record(), asyncio.Event()
    try:
        async with _ways(endpoint) as ways, asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            for number in range(num_clients):
                ask, seed = ways[number % len(ways)], f"{options.seed}/{number}"
                call = _call_until(done, ask, models, truth, number, seed, record)
                group.create_task(call)
            await _kill(kills, num_clients, options.work, record)
            done.set()
    finally:
        await _end(endpoint, options.work)
    return _report(record, kills, num_clients)


@contextlib.asynccontextmanager
async def _ways(endpoint: LocalWorker) -> AsyncIterator[tuple[Ask, ...]]:
    """Open both ways to the worker."""
    client = EngineClient(endpoint, load_wait_s=PATIENCE_S, timeout_s=PATIENCE_S)
    limits = BodyLimits(max=MAX_BODY_BYTES, kept=MAX_BODY_BYTES)
    proxy = Proxy(endpoint, timeout_s=PATIENCE_S, limits=limits, allows_local_models=True)
    app = Starlette(routes=[Route("/v1/{path:path}", proxy.handle, methods=["POST"])])
    async with (
        serving(app) as url,
        Caller(url, patience_s=PATIENCE_S, load_wait_s=PATIENCE_S) as caller,
    ):

        async def through_proxy(job: Job) -> wire.Response:
            outcome, answer = await caller.ask(job)
            if outcome.code == NO_ANSWER:
                raise TimeoutError
            if answer is None:
                known = error_classes().get(outcome.code, SieError)
                raise known(f"{outcome.code}, status {outcome.status}, through the gateway")
            return answer

        yield functools.partial(_through_client, client), through_proxy
    await client.aclose()
    await proxy.aclose()


async def _through_client(client: EngineClient, job: Job) -> wire.Response:
    name, sent = str(job.model.folder), job.request
    if isinstance(sent, wire.EncodeRequest):
        return await client.encode(name, sent.items)
    if isinstance(sent, wire.ScoreRequest):
        return await client.score(name, sent.query, sent.items)
    return await client.extract(name, sent.items)


def _config(options: Options) -> Config:
    settings: dict[str, Any] = options.worker(memory_budget="1GiB")
    own = {"cache_dir": options.work / "cache", "runtime_dir": options.work / "run"}
    return Config(**own, offline=True, worker_idle_exit_s=60, **settings)


def _command() -> list[str]:
    """The worker runs in another folder, and must find the same sources."""
    start = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        "from evals.stress.faulty_worker import main; main()"
    )
    return [sys.executable, "-c", start, "--oom-every", str(OOM_EVERY)]


async def _call_until(
    done: asyncio.Event,
    ask: Ask,
    models: list[Model],
    truth: Truth,
    number: int,
    seed: str,
    record: Record,
) -> None:
    rng = random.Random(seed)
    while not done.is_set():
        model = rng.choice(models)
        texts = rng.sample(truth.texts, rng.randint(2, 6))
        places = {rng.randrange(len(texts)): POISON}
        if rng.random() < 0.1:
            places[rng.randrange(len(texts))] = FLOOD
        sent = [f"{one} {places[n]}" if n in places else one for n, one in enumerate(texts)]
        started_s = record.in_hand[number] = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await ask(Job(model, request(model, sent, query=QUERY)))
        except TimeoutError:
            record.hung.append(f"{model.name} after {PATIENCE_S:.0f} s")
        except SieError as error:
            note_error(model, error, record)
        else:
            check(model, texts, places, answer, truth, record)
        del record.in_hand[number]
        record.answered += 1
        record.seconds.append(time.monotonic() - started_s)


async def _kill(kills: int, num_clients: int, work: Path, record: Record) -> None:
    """Kill the worker while it works, and wait each time until the next one has served."""
    killed_s = 0.0
    for number in range(kills + 1):
        enough = record.answered + ANSWERS_EACH * num_clients
        while record.answered < enough or not _may_kill(record, killed_s, num_clients):
            await asyncio.sleep(0.01)
        if number < kills:
            pid = _worker_pid(work)
            os.kill(pid, signal.SIGKILL)
            killed_s = time.monotonic()
            record.killed.append(pid)
    while not record.flaky_served:
        await asyncio.sleep(0.01)


def _may_kill(record: Record, killed_s: float, num_clients: int) -> bool:
    """Half of the callers wait for an answer, and nobody whose call the last kill may have met.

    A call is tried once more, not for ever: one that two workers ended under may be the reason.
    """
    sent = record.in_hand.values()
    return len(sent) >= num_clients // 2 and min(sent, default=0.0) > killed_s + DYING_S


def _worker_pid(work: Path) -> int:
    (lock,) = (work / "run").glob("*.lock")
    return int(read_note(lock))


async def _end(endpoint: LocalWorker, work: Path) -> None:
    """Leave no worker behind."""
    with contextlib.suppress(ValueError, psutil.NoSuchProcess):
        last = psutil.Process(_worker_pid(work))
        last.kill()
        await asyncio.to_thread(last.wait)
    # Whoever started it notes that it ended.
    await endpoint.lost(Address("http://worker"))


def _report(record: Record, kills: int, num_clients: int) -> Report:
    claimed = Claimed()
    claimed.at_least("workers killed", len(set(record.killed)), kills)
    claimed.none("wrong result", record.wrong)
    claimed.none("lost request", record.lost)
    claimed.none(f"answer later than {PATIENCE_S:.0f} s", record.hung)
    claimed.none("untyped error", record.untyped)
    claimed.at_least("poisoned items that failed alone", record.items["INFERENCE_ERROR"], 1)
    claimed.at_least("loads refused while they failed", record.failed_loads, 1)
    claimed.at_least("calls of the model whose loads had failed", record.flaky_served, 1)
    settings = {"kills": kills, "clients": num_clients, "oom_every": OOM_EVERY}
    rows = [{"calls": record.answered, **record.items, **quantiles(record.seconds)}]
    return Report(settings, rows, claimed.claims)
