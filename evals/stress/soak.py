"""Soak: thousands of mixed requests of random lengths; what the worker takes must not grow."""

from dataclasses import asdict

from evals.stress.calls import OK, Caller
from evals.stress.load import counted
from evals.stress.models import Kind, Shape, make
from evals.stress.options import Options
from evals.stress.report import Claimed, Report, by_model
from evals.stress.traffic import Sizes, jobs
from evals.stress.worker import Sample, working

KINDS: tuple[Kind, ...] = ("dense", "cross_encoder", "token_classification")
REQUESTS, CLIENTS = 20_000, 8
# Memory is compared with what it was after this share of the requests.
WARM_SHARE, TINY_WARM_SHARE = 0.1, 0.5
NUM_SAMPLES = 40
MAX_GROWTH = 1.05
# A connection or a pool's thread more or less is no leak.
MAX_MORE = 4


async def run(options: Options, kinds: tuple[Kind, ...] = KINDS) -> Report:
    """Send the requests, looking at the worker in between."""
    requests = options.requests or REQUESTS
    num_clients = options.clients or CLIENTS
    models = [
        make(Shape(kind, kind=kind), options.work / kind, dtype=options.dtype) for kind in kinds
    ]
    sizes = Sizes(items=(1, 1) if options.tiny else (1, 3), words=(1, 510))
    clients = [jobs(models, sizes, f"{options.seed}/{one}") for one in range(num_clients)]
    samples: dict[int, Sample] = {}
    every = max(requests // NUM_SAMPLES, 1)
    async with (
        working(options.work, options.worker(memory_budget="1GiB", num_threads=1)) as worker,
        Caller(worker.url, patience_s=120, load_wait_s=60) as caller,
    ):

        def look(answered: int) -> None:
            if answered % every == 0:
                samples[answered] = worker.sample(device=options.gpu)

        outcomes = await counted(caller.call, clients, requests=requests, heard=look)
    claimed = Claimed()
    claimed.at_least("requests answered", len(outcomes), requests)
    claimed.none("failed request", [one for one in outcomes if one.code != OK])
    # Few requests are most of the way to being warm.
    warm = requests * (TINY_WARM_SHARE if options.tiny else WARM_SHARE)
    _compare(claimed, samples, warm)
    settings = {"requests": requests, "clients": num_clients, "models": list(kinds)}
    kept = [{"answered": answered} | asdict(one) for answered, one in samples.items()]
    return Report(settings, by_model(outcomes), claimed.claims, kept)


def _compare(claimed: Claimed, samples: dict[int, Sample], from_: float) -> None:
    warm = next(one for answered, one in samples.items() if answered >= from_)
    last = list(samples.values())[-1]
    growth = last.rss_bytes / warm.rss_bytes
    warm_mb = warm.rss_bytes / 1e6
    claimed.at_most(
        f"resident memory at the end over {warm_mb:.0f} MB when warm", growth, MAX_GROWTH
    )
    claimed.at_most("more descriptors than when warm", last.num_fds - warm.num_fds, MAX_MORE)
    claimed.at_most("more threads than when warm", last.num_threads - warm.num_threads, MAX_MORE)
    if warm.device_bytes is not None and last.device_bytes is not None:
        grown = last.device_bytes / warm.device_bytes
        claimed.at_most("device memory at the end over that when warm", grown, MAX_GROWTH)
