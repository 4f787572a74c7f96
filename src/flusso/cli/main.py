"""The `flusso` command: one file for each subcommand, one place that turns errors into exit codes."""

from __future__ import annotations

import sys

import typer

from flusso import __version__
from flusso.cli import check, demo, reindex, run, sample, search, status
from flusso.errors import FlussoError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Keep search indexes in step with Postgres.",
)
app.command()(run.run)
app.command()(check.check)
app.command()(sample.sample)
app.command()(status.status)
app.command()(search.search)
app.command()(reindex.reindex)
app.command()(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"flusso {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Keep search indexes in step with Postgres."""


def main() -> None:
    """Run a command and exit with its code."""
    try:
        app()
    except FlussoError as error:
        print(f"flusso: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
