"""From process start to the first embedding, wall and processor time, `import torch` alone beside.

A bare process that loads the model and encodes, and the worker over its Unix socket: what waits for
a start. In turn, one thread, float32, files in the page cache and modules compiled, as an installer
leaves them. Linux: a worker's time is in /proc.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

MODEL = "all-MiniLM-L6-v2"
RUNS = 5
# Nobody waits for longer.
LIMIT_S = 60.0
POLL_S = 0.005
TEXT = "small models as tools"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SETTINGS = {
    "SIE_MCP_NUM_THREADS": "1",
    "SIE_MCP_DTYPE": "float32",
    "SIE_MCP_DEVICE": "cpu",
}
Ask = Callable[[list[str]], None]
# Each says what processor time it has taken when it is there. Without the collector, as a worker.
TORCH = """
import time
from sie_mcp.imports_kept import imports_kept
with imports_kept():
    import torch
print(time.process_time(), flush=True)
"""
OURS = """
import time
from sie_mcp.imports_kept import imports_kept
with imports_kept():
    from sie_mcp.engine.torch_parts import import_torch
    import_torch()
print(time.process_time(), flush=True)
"""
BARE = """
import sys, time
from sie_mcp.imports_kept import imports_kept
with imports_kept():
    from sie_mcp.engine.torch_parts import import_torch
    import_torch()
    import torch
    from evals.bench.cpu_encode import CPU, encode
    from sie_mcp.adapters import create
    from sie_mcp.adapters.layers.cpu.packed_linear import PackedLinear
    from sie_mcp.catalogue.fetch import find_local
    from sie_mcp.catalogue.files import load_catalogue
    from sie_mcp.config import load_config
name, text = sys.argv[1:]
torch.set_num_threads(1)
entry = load_catalogue().find(name)
folder = find_local(entry, load_config().cache_dir) if entry else None
if folder is None:
    raise SystemExit(f"{name} is not on disk; run `sie-mcp models pull {name}`")
recipe = create.read_recipe(name, folder, entry)
adapter = create.load_adapter(recipe, device=CPU, dtype=torch.float32, packing=PackedLinear)
assert encode(adapter, [text]).size
print(time.process_time(), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Start:
    """Medians of one way: seconds since the process was started, and of its processor time."""

    name: str
    wall_s: float
    processor_s: float


def measure(runs: int = RUNS) -> list[Start]:
    """Start each in turn; a first round only brings files into the page cache.

    Raises:
        RuntimeError: a start failed; with what it said.
    """
    ways: dict[str, Callable[[], tuple[float, float]]] = {
        "import torch": lambda: _printed(["-c", TORCH]),
        "import torch for serving": lambda: _printed(["-c", OURS]),
        "bare process": lambda: _printed(["-c", BARE, MODEL, TEXT]),
        "worker over its socket": _worker,
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for place in range(runs + 1):
        for name, start in ways.items():
            times = start()
            found[name] += [times] if place else []
    return [
        Start(name, *(statistics.median(one) for one in zip(*times, strict=True)))
        for name, times in found.items()
    ]


def _printed(arguments: list[str]) -> tuple[float, float]:
    """Time a program until its line comes."""
    started_s = time.perf_counter()
    command = [sys.executable, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment()
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        wall_s = time.perf_counter() - started_s
        if not line:
            raise RuntimeError(f"{arguments[0]} ended without an answer: {process.stderr.read()}")
    return wall_s, float(line)


def _worker() -> tuple[float, float]:
    """Time a worker until it has answered the first request."""
    started_s = time.perf_counter()
    with running_worker(SETTINGS) as (process, ask):
        ask([TEXT])
        return time.perf_counter() - started_s, _processor_s(process.pid)


@contextmanager
def running_worker(settings: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], Ask]]:
    """Run a worker on a socket of its own; yield it, and what asks it for vectors of texts."""
    with tempfile.TemporaryDirectory() as folder:
        socket, log = Path(folder) / "worker.sock", Path(folder) / "log"
        command = [sys.executable, "-m", "sie_mcp", "worker", "--uds", str(socket)]
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=out, env=_environment() | settings
            )
        try:
            with _client(socket) as client:
                yield process, lambda texts: _ask(client, process, log, texts)
        finally:
            process.terminate()
            process.wait(timeout=LIMIT_S)


def _ask(
    client: httpx2.Client, process: subprocess.Popen[bytes], log: Path, texts: list[str]
) -> None:
    """Ask for vectors until the worker listens."""
    ends_s = time.perf_counter() + LIMIT_S
    body = {"items": [{"text": text} for text in texts]}
    while time.perf_counter() < ends_s and process.poll() is None:
        try:
            answer = client.post(f"/v1/encode/{MODEL}", json=body)
        except httpx2.TransportError:
            time.sleep(POLL_S)
            continue
        items = answer.raise_for_status().json()["items"]
        assert len(items) == len(texts) and all(item["dense"]["values"] for item in items)
        return
    raise RuntimeError(f"the worker did not answer within {LIMIT_S:g} s: {log.read_text()}")


def _client(socket: Path) -> httpx2.Client:
    return httpx2.Client(
        transport=httpx2.HTTPTransport(uds=str(socket)),
        base_url="http://worker",
        timeout=LIMIT_S,
        headers={"X-SIE-Load-Wait": f"{LIMIT_S:g}"},
    )


def _processor_s(pid: int) -> float:
    """Return the processor time that all threads of a process have had."""
    # After the name, which may hold anything in its brackets: fields from the third on.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _environment() -> dict[str, str]:
    # Else a machine that keeps no compiled modules would compile all of ours at each start.
    compiled = {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "sie-mcp-first-embedding"),
    }
    return os.environ | ONE_THREAD | SETTINGS | compiled


def main() -> int:
    """Measure, print, keep the figures in evals/results."""
    load = os.getloadavg()[0]
    rows = [
        {
            "start": one.name,
            "wall_s": round(one.wall_s, 2),
            "processor_s": round(one.processor_s, 2),
        }
        for one in measure()
    ]
    record = {
        "command": "python -m evals.bench.first_embedding",
        "model": MODEL,
        "runs": RUNS,
        "python": ".".join(map(str, sys.version_info[:3])),
        "cores": os.cpu_count(),
        "load_average": round(load, 1),
        "rows": rows,
    }
    text = json.dumps(record, indent=1) + "\n"
    (Path(__file__).parents[1] / "results" / "first_embedding.json").write_text(text)
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
