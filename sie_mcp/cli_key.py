"""`sie-mcp key new NAME`: a key, shown once, and what of it belongs in the file of keys."""

from typing import Annotated, Literal

import typer

from sie_mcp.access.keys import new_key
from sie_mcp.cli_models import errors_shown


def key(
    verb: Annotated[Literal["new"], typer.Argument(help="new: make one.")],
    name: Annotated[str, typer.Argument(help="Of whoever will hold it: letters, digits, - and _.")],
) -> None:
    """Make a key for callers over HTTP; the entry goes into SIE_MCP_API_KEYS_FILE."""
    with errors_shown():
        made, entry = new_key(name)
        typer.echo("The key, which nobody can show again:", err=True)
        typer.echo(made)
        typer.echo("For the file of keys:", err=True)
        typer.echo(entry, nl=False)
