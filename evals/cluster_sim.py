"""`python -m evals.cluster_sim`: routing rules compared on simulated workers; seconds, no network.

What is simulated stands in evals/routing. Keeps evals/results/cluster_sim.json and .md.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

from evals.routing.cluster import World
from evals.routing.rules import RULES
from evals.routing.simulation import Simulation

RESULTS = Path(__file__).parent / "results"

WORLDS = {
    "steady": World(),
    "steeper (zipf 1.4)": World(zipf=1.4),
    "tight memory (6 of 40)": World(places=6, load=0.5),
    "one joins at 60 s, one leaves at 90 s": World(joins=(60.0,), leaves=(90.0,)),
    "three gateways, residency .5 s old": World(gateways=3, seen_every_s=0.5),
}


def main() -> None:
    """Run all worlds under all rules, print, and keep."""
    parser = argparse.ArgumentParser(prog="python -m evals.cluster_sim", description=__doc__)
    parser.add_argument("--rule", choices=list(RULES), action="append", help="only this one")
    given = parser.parse_args()
    rows = []
    for name, world in WORLDS.items():
        for rule in given.rule or RULES:
            started_s = time.perf_counter()
            figures = Simulation(world, rule).run()
            rows.append({"world": name, "rule": rule, **figures})
            print(name, rule, figures, f"{time.perf_counter() - started_s:.1f} s", flush=True)
    if given.rule is None:
        _keep(rows)


def _keep(rows: list[dict[str, Any]]) -> None:
    settings = {"command": "python -m evals.cluster_sim", "world": repr(World())}
    text = json.dumps({**settings, "rows": rows}, indent=1)
    (RESULTS / "cluster_sim.json").write_text(text + "\n")
    names = list(rows[0])
    lines = [" | ".join(names), " | ".join("---" for _ in names)]
    lines += [" | ".join(str(row[name]) for name in names) for row in rows]
    table = "\n".join(f"| {line} |" for line in lines)
    page = f"# Routing rules\n\n`{settings['command']}`: `{settings['world']}`\n\n{table}\n"
    (RESULTS / "cluster_sim.md").write_text(page)
    Console(width=120).print(Markdown(page))


if __name__ == "__main__":
    main()
