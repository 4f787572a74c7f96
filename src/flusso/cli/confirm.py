"""Ask before something is lost."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from flusso.errors import ConfigError

Yes = Annotated[bool, typer.Option("--yes", envvar="FLUSSO_YES", help="Do it without asking.")]


def confirm(warning: str, *, yes: bool) -> None:
    """Ask before data is lost; where nobody can be asked, `--yes` must have been given."""
    if yes:
        return
    print(f"{warning}.", file=sys.stderr)
    if not _is_terminal():
        raise ConfigError("this loses data and nobody can be asked", hint="give --yes if it is meant")
    if not typer.confirm("Do it?", err=True):
        raise typer.Exit(1)


def _is_terminal() -> bool:
    return sys.stdin.isatty()
