"""`python -m evals.stress SCENARIO [--gpu] [--seconds N] …`: run, print, and keep what was found.

Keeps evals/results/stress-<scenario>-<cpu|gpu>.json and .md. Exits with 1 when a claim does not
hold.
"""

import argparse
import asyncio
import gc
import importlib
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from evals.stress.options import Options
from evals.stress.report import RESULTS, Report, device_name, keep

SCENARIOS = ("swap", "twelve", "overload", "soak", "chaos")


def main() -> int:
    """Run one scenario."""
    parser = argparse.ArgumentParser(prog="python -m evals.stress", description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--gpu", action="store_true", help="on the first CUDA device")
    parser.add_argument("--tiny", action="store_true", help="as small as in the tests")
    parser.add_argument("--seconds", type=float, help="of load, in the arm under test")
    parser.add_argument("--clients", type=int, help="callers side by side")
    parser.add_argument("--requests", type=int, help="where they are counted")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--setting", action="append", default=[], metavar="NAME=VALUE", help="of the worker"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to keep what was found")
    given = parser.parse_args()
    settings = dict(one.split("=", 1) for one in given.setting)
    name = f"{given.scenario}-{'gpu' if given.gpu else 'cpu'}"
    started_s = time.perf_counter()
    # A short path: sockets lie in it.
    with tempfile.TemporaryDirectory(prefix="stress") as work:
        options = Options(
            Path(work), given.gpu, given.tiny, given.seconds, given.clients, given.requests,
            given.seed, settings,
        )  # fmt: skip
        module = importlib.import_module(f"evals.stress.{given.scenario}")
        # Going through what was imported would hold every caller up for as long.
        gc.freeze()
        report: Report = asyncio.run(module.run(options))
    command = f"python -m evals.stress {' '.join(sys.argv[1:])}"
    seconds = time.perf_counter() - started_s
    keep(report, name, command, device_name(gpu=given.gpu), seconds, given.out)
    Console(width=130).print(Markdown((given.out / f"stress-{name}.md").read_text()))
    return 0 if all(one.holds for one in report.claims) else 1


if __name__ == "__main__":
    sys.exit(main())
