"""Chaos: a worker killed under load, out of memory, loads that fail, a poisoned text in each call.

Callers go through what the product's own tools go through: the local worker's supervisor and the
client that tries again. Every result is held against the same model in this process, undisturbed.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from evals.stress.faulty_worker import FLAKY, FLOOD, POISON
from evals.stress.models import Model, Shape, make
from evals.stress.options import Options
from evals.stress.report import Claimed, Report, quantiles
from evals.stress.traffic import request, text
from evals.stress.worker import ROOT
from sie_mcp import wire
from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import Address
from sie_mcp.errors import SieError, error_classes
from sie_mcp.gateway.lock import read_note
from sie_mcp.gateway.supervisor import LocalWorker
from tests.parity.run import load
from tests.parity.run import run as run_alone

KILLS, CLIENTS = 10, 8
NUM_TEXTS = 60
# Between two kills so many calls are answered for each caller.
ANSWERS_EACH = 3
# A worker that is being killed may still take a call.
DYING_S = 0.5
OOM_EVERY = 10
PATIENCE_S, LIMIT_S = 120.0, 900.0
QUERY = "w1 w2 w3"
# What an item with a fault of its own may say.
FAULTS = {POISON: {"INFERENCE_ERROR"}, FLOOD: {"RESOURCE_EXHAUSTED"}}
# While it still fails; later it is served as any other.
FLAKY_CODES = {"MODEL_LOAD_FAILED"}
_ROLES = (
    Shape("dense"),
    Shape("other", "distilbert"),
    Shape("scores", kind="cross_encoder"),
    Shape("topics", kind="classification"),
    Shape(FLAKY, layers=1),
)


@dataclass(slots=True)
class Record:
    """What was seen so far; `in_hand` is when each caller's call was sent."""

    answered: int = 0
    in_hand: dict[int, float] = field(default_factory=dict)
    items: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    untyped: list[str] = field(default_factory=list)
    failed_loads: int = 0
    flaky_served: int = 0
    killed: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Truth:
    """What each model says of each text, alone: one row of numbers a text."""

    texts: list[str]
    rows: dict[str, np.ndarray]
    tolerance: float

    def is_right(self, model: Model, text_: str, row: np.ndarray) -> bool:
        """Whether this is what the model says of the text."""
        wanted = self.rows[model.name][self.texts.index(text_)]
        return wanted.shape == row.shape and bool(np.abs(wanted - row).max() <= self.tolerance)


async def run(options: Options) -> Report:
    """Keep callers calling until the last kill has been outlived."""
    kills = options.requests or (2 if options.tiny else KILLS)
    num_clients = options.clients or CLIENTS
    models = [make(one, options.work / one.name, dtype=options.dtype) for one in _ROLES]
    truth = _truth(models, options)
    endpoint = LocalWorker(_config(options), _command())
    client = EngineClient(endpoint, load_wait_s=PATIENCE_S, timeout_s=PATIENCE_S)
    record, done = Record(), asyncio.Event()
    try:
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            for number in range(num_clients):
                seed = f"{options.seed}/{number}"
                call = _call_until(done, client, models, truth, number, seed, record)
                group.create_task(call)
            await _kill(kills, num_clients, options.work, record)
            done.set()
    finally:
        await client.aclose()
        await _end(endpoint, options.work)
    return _report(record, kills, num_clients)


def _truth(models: list[Model], options: Options) -> Truth:
    rng = random.Random(options.seed)
    texts = [text(rng, (2, 40)) for _ in range(NUM_TEXTS)]
    rows = {}
    for model in models:
        answer, _ = run_alone(load(model.folder), request(model, texts, query=QUERY))
        rows[model.name] = np.stack([row for _, row, _ in _results(answer)])
    # Half precision on a device; unit vectors, probabilities and logits of about 1.
    return Truth(texts, rows, 0.1 if options.gpu else 1e-4)


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
    client: EngineClient,
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
                answer = await _ask(client, model, sent)
        except TimeoutError:
            record.hung.append(f"{model.name} after {PATIENCE_S:.0f} s")
        except SieError as error:
            _note_error(model, error, record)
        else:
            _check(model, texts, places, answer, truth, record)
        del record.in_hand[number]
        record.answered += 1
        record.seconds.append(time.monotonic() - started_s)


async def _ask(client: EngineClient, model: Model, texts: list[str]) -> wire.Response:
    name, items = str(model.folder), [wire.Item(text=one) for one in texts]
    if model.primitive == "encode":
        return await client.encode(name, items)
    if model.primitive == "score":
        return await client.score(name, wire.Item(text=QUERY), items)
    return await client.extract(name, items)


def _note_error(model: Model, error: SieError, record: Record) -> None:
    if error.code not in error_classes() or type(error) is SieError:
        record.untyped.append(f"{model.name}: {error!r}")
    if model.name == FLAKY and error.code in FLAKY_CODES:
        record.failed_loads += 1
    else:
        record.lost.append(f"{model.name}: {error.code} {error}")


def _check(
    model: Model,
    texts: list[str],
    places: dict[int, str],
    answer: wire.Response,
    truth: Truth,
    record: Record,
) -> None:
    """Hold every item against what it must be: the right numbers, or its own fault."""
    record.flaky_served += model.name == FLAKY
    for place, row, code in _results(answer):
        fault = places.get(place)
        record.items[code or "right"] += 1
        if fault is not None:
            if code not in FAULTS[fault]:
                record.wrong.append(f"{model.name}[{place}] with {fault}: {code}")
        elif code is not None:
            record.lost.append(f"{model.name}[{place}]: {code}")
        elif not truth.is_right(model, texts[place], row):
            record.wrong.append(f"{model.name}[{place}]: other numbers")


def _results(answer: wire.Response) -> list[tuple[int, np.ndarray, str | None]]:
    """Return each item's place, its numbers, and its error's code."""
    if isinstance(answer, wire.ScoreResponse):
        scores = sorted(answer.scores, key=lambda one: one.index)
        found = [(one, [] if one.score is None else [one.score]) for one in scores]
    elif isinstance(answer, wire.EncodeResponse):
        found = [(one, [] if one.dense is None else one.dense.values) for one in answer.items]
    else:
        # Highest first in the answer; by name they can be compared.
        found = [
            (one, [c.score for c in sorted(one.classifications, key=lambda c: c.label)])
            for one in answer.items
        ]
    return [
        (place, np.asarray(row, dtype=np.float64), one.error.code if one.error else None)
        for place, (one, row) in enumerate(found)
    ]


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
