"""The `flusso` command: one file for each subcommand, one place that turns errors into exit codes."""

from __future__ import annotations

import sys

import typer

from flusso import __version__
from flusso.cli import (
    build,
    check,
    clean,
    demo,
    indexes,
    init,
    quarantine,
    reindex,
    rollback,
    run,
    sample,
    schema,
    search,
    slot,
    status,
    verify,
)
from flusso.cli.report import open_console, print_findings, printable, summarize
from flusso.errors import ConfigError, FlussoError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Keep search indexes in step with Postgres.",
)
app.command()(init.init)
app.command()(run.run)
app.command()(check.check)
app.command()(build.build)
app.command()(sample.sample)
app.command()(schema.schema)
app.command()(status.status)
app.command()(verify.verify)
app.command()(search.search)
app.command()(reindex.reindex)
app.command()(rollback.rollback)
app.command()(indexes.indexes)
app.command()(clean.clean)
app.command()(demo.demo)
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(slot.app, name="slot")


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
        _show(error)
        sys.exit(error.exit_code)


def _show(error: FlussoError) -> None:
    console = open_console(stderr=True)
    if isinstance(error, ConfigError) and error.problems:
        print_findings(console, error.problems)
        console.print(f"flusso: {summarize(error.problems)}")
        return
    console.print(f"flusso: {printable(error.message)}")
    if error.hint:
        console.print(f"  hint: {printable(error.hint)}")


if __name__ == "__main__":
    main()
