"""`sie-mcp doctor`: what is right and wrong with this installation, and what to do about it.

Exit codes: 0 nothing failed, 1 something did.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sie_mcp.cli_answer import printable
from sie_mcp.config import Config, load_config
from sie_mcp.doctor import entries, machine, network, storage, worker
from sie_mcp.doctor.findings import Finding, Verdict
from sie_mcp.errors import SettingError, SieError
from sie_mcp.install.places import Places

Check = Callable[[Config], list[Finding]]
STYLES: dict[Verdict, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}
CHECKS: dict[str, Check] = {
    "python": lambda _: machine.python(),
    "torch": machine.engine,
    "cache": storage.cache,
    "models": storage.models,
    "batches": storage.batches,
    "hub": lambda config: network.sources(config, os.environ),
    "worker": worker.worker,
    "clients": lambda _: entries.entries(Places.of_user(os.environ, Path.cwd())),
}


def doctor(
    is_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Check Python, torch, device, cache, network, worker and the clients' configurations."""
    tell: Callable[[Finding], None] = _say_nothing if is_json else _print
    try:
        config = load_config()
    except SettingError as error:
        findings = [Finding("settings", "fail", str(error), "change or unset that variable")]
        tell(findings[0])
    else:
        findings = _examine(config, tell)
    if is_json:
        typer.echo(json.dumps({"findings": [asdict(one) for one in findings]}, ensure_ascii=False))
    if any(finding.verdict == "fail" for finding in findings):
        raise typer.Exit(1)


def _examine(config: Config, tell: Callable[[Finding], None]) -> list[Finding]:
    """Run every check; one that cannot be made is a finding too."""
    findings: list[Finding] = []
    for name, check in CHECKS.items():
        try:
            found = check(config)
        except SieError as error:
            found = [Finding(name, "fail", str(error), "see the message")]
        for finding in found:
            tell(finding)
        findings += found
    return findings


def _say_nothing(_: Finding) -> None:
    """Programs read the whole report at its end."""


def _print(finding: Finding) -> None:
    console = Console()
    line = Text(f"{finding.verdict:4}  ", style=STYLES[finding.verdict])
    line.append(f"{finding.name:12}", style="bold").append(f"  {printable(finding.text)}", "")
    console.print(line, soft_wrap=True)
    if finding.fix:
        console.print(Text(f"{'':20}fix: {printable(finding.fix)}"), soft_wrap=True)
