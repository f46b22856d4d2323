"""A gateway and six workers, each a process of its own with small real models, on 127.0.0.x."""

import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx2
from transformers import BertModel

from evals.ports import free_port
from sie_mcp.gateway.pool.keys import ranked
from tests.cluster.conftest import WAIT_S
from tests.tiny import bert_config, save_model, write_modules

NUM_WORKERS = 6
NUM_MODELS = 12
MODELS_EACH = 4
# Bounds of waits, not what they take: the machine may be busy with other things.
START_S = 90.0
ASK = {"X-SIE-Load-Wait": "60"}


@dataclass
class Worker:
    """One worker, at the same address through its lives."""

    host: str
    port: int
    pid: int = 0

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    @property
    def is_there(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


@dataclass
class Traffic:
    """What was asked and answered so far."""

    asked: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    num_answers: int = 0
    slowest_s: float = 0.0


class Fleet:
    """All of them. A context: at its end nobody is left.

    Attributes:
        urls: Where the gateway finds the workers; another way than the straight one may be set
            before the start.
    """

    def __init__(self, folder: Path, *, num_awake: int = NUM_WORKERS) -> None:
        self.folder = folder
        self._num_awake = num_awake
        self.models = [f"small/bert-{number}" for number in range(NUM_MODELS)]
        self.workers = _crowded(self.models)
        self.urls = [one.url for one in self.workers]
        self._front = _at("127.0.0.1")
        self.url = self._front.url
        self._vectors: dict[str, list[float]] = {}
        self._programs: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Fleet":
        settings = self._settings()
        self._fork = self._run(["-m", "tests.cluster.fleet"], settings, stdin=subprocess.PIPE)
        serve = ["-m", "sie_mcp", "serve", "--port", str(self._front.port)]
        self._run(serve, settings | {"SIE_MCP_WORKERS": ",".join(self.urls)})
        for one in self.workers[: self._num_awake]:
            self.start(one)
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.workers:
            if one.pid and one.is_there:
                one.send(signal.SIGKILL)
        for program in self._programs:
            program.kill()
            program.communicate(timeout=20)

    def start(self, worker: Worker) -> None:
        """Start a worker that is not there."""
        assert self._fork.stdin is not None
        assert self._fork.stdout is not None
        self._fork.stdin.write(f"{worker.host} {worker.port}\n")
        self._fork.stdin.flush()
        worker.pid = int(self._fork.stdout.readline())

    async def whole(self, http: httpx2.AsyncClient) -> None:
        """Bring back who is gone, and wait until the gateway knows them all."""
        for one in self.workers:
            if not one.is_there:
                self.start(one)
        await self.sees(http, NUM_WORKERS, START_S)

    async def sees(self, http: httpx2.AsyncClient, count: int, limit_s: float = WAIT_S) -> None:
        """Wait until so many workers are ready to the gateway."""
        with anyio.fail_after(limit_s):
            while True:
                try:
                    text = (await http.get("/metrics")).text
                except httpx2.TransportError:
                    text = ""
                found = re.search(r'sie_pool_workers\{pool="default",state="ready"\} (\S+)', text)
                if found and float(found[1]) == count:
                    return
                await anyio.sleep(0.05)

    async def num_loads(self) -> int:
        """Return how many loads those that are there have done."""
        total = 0
        async with httpx2.AsyncClient(timeout=WAIT_S) as http:
            for one in self.workers:
                text = (await http.get(f"{one.url}/metrics")).text
                lines = re.findall(r'^sie_model_loads_total\{.*outcome="ok".*\} (\S+)$', text, re.M)
                total += int(sum(map(float, lines)))
        return total

    async def traffic(
        self, http: httpx2.AsyncClient, found: Traffic, count: int, *, clients: int = 12
    ) -> None:
        """Ask for models by Zipf's law, and hold every answer against those of before."""
        weights = list(itertools.accumulate(1 / (place + 1) for place in range(NUM_MODELS)))
        todo = iter(random.Random(0).choices(self.models, cum_weights=weights, k=count))

        async def client() -> None:
            for number, model in enumerate(todo):
                found.asked[model] += 1
                text = f"alpha {number % 5}"
                begun_s = time.monotonic()
                failure = await self._ask(http, model, text)
                found.slowest_s = max(found.slowest_s, time.monotonic() - begun_s)
                found.num_answers += 1
                if failure:
                    found.failures.append(f"{model}: {failure}")

        async with anyio.create_task_group() as group:
            for _ in range(clients):
                group.start_soon(client)

    async def _ask(self, http: httpx2.AsyncClient, model: str, text: str) -> str | None:
        try:
            answer = await http.post(
                f"/v1/encode/{model}", json={"items": [{"text": text}]}, headers=ASK
            )
        except httpx2.TransportError as error:
            return repr(error)
        if answer.status_code != 200:
            return f"{answer.status_code} {answer.text[:200]}"
        values = answer.json()["items"][0]["dense"]["values"]
        before = self._vectors.setdefault(text, values)
        return None if values == before else "another vector than before"

    def _settings(self) -> dict[str, str]:
        checkpoint = self.folder / "bert"
        save_model(checkpoint, BertModel(bert_config()))
        write_modules(checkpoint, [("Transformer", None), ("Pooling", {"pooling_mode": "mean"})])
        size_bytes = (checkpoint / "model.safetensors").stat().st_size
        entries = [
            f'[[models]]\nname = "{name}"\ntasks = ["dense"]\n[[models.sources]]\n'
            f'kind = "path"\npath = "{checkpoint}"\n'
            for name in self.models
        ]
        (self.folder / "models.toml").write_text("\n".join(entries))
        own = {
            "CATALOGUE_FILE": str(self.folder / "models.toml"),
            "CACHE_DIR": str(self.folder / "cache"),
            "RUNTIME_DIR": str(self.folder / "run"),
            "ALLOW_MODEL_CONTROL": "true",
            "OFFLINE": "true",
            # And a quarter for a batch.
            "MEMORY_BUDGET": str(int((MODELS_EACH + 0.5) * size_bytes * 4 / 3)),
            "NUM_THREADS": "1",
            # More than there are clients: nothing is hot enough to want a second copy, however
            # slow the machine is.
            "WORKER_SLOTS": "32",
        }
        return {f"SIE_MCP_{name}": value for name, value in own.items()}

    def _run(
        self, arguments: list[str], settings: dict[str, str], stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[str]:
        with (self.folder / f"{arguments[1]}.log").open("a") as log:
            program = subprocess.Popen(
                [sys.executable, *arguments], env=os.environ | settings, text=True,
                stdin=stdin, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self._programs.append(program)
        return program


def _crowded(models: list[str]) -> list[Worker]:
    """Return workers at addresses of which one is the first choice of more than it has memory for.

    Of six addresses one in five sets is so.
    """
    while True:
        workers = [_at(f"127.0.0.{number + 2}") for number in range(NUM_WORKERS)]
        urls = tuple(sorted(one.url for one in workers))
        owned = Counter(ranked(model, urls)[0] for model in models)
        if max(owned.values()) > MODELS_EACH:
            return workers


def _at(host: str) -> Worker:
    return Worker(host, free_port(host))
