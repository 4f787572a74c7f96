"""`flusso verify [INDEX…]`: compare indexes with their tables, and repair what differs with `--repair`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.located import placed
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat, Prefix, Publication, Slot
from flusso.cli.progress import show_progress
from flusso.cli.run import stop_on_signal
from flusso.cli.verify_text import print_verification, to_json
from flusso.engine.verify.facts import Verification
from flusso.engine.verify.run import run_verify
from flusso.errors import DocumentRefused

_INTERRUPTED = 130


def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[INDEX]...", help="The indexes to compare; all if absent.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            envvar="FLUSSO_SAMPLE",
            min=1,
            help="Compare the documents of so many rows of each index, chosen at random, instead of all.",
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", envvar="FLUSSO_REPAIR", help="Write anew what differs, and look again."),
    ] = False,
    config: Config = DEFAULT_CONFIG,
    slot: Slot = None,
    publication: Publication = None,
    index_prefix: Prefix = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Compare the indexes with the database, while both are in use."""
    deployment = load(config, slot=slot, publication=publication, prefix=index_prefix)
    spec = pipeline_spec(deployment, makes_files=False)
    stop = stop_on_signal()
    with placed(deployment), show_progress() as tell:
        found = run_verify(spec, tell, stop, names=names or (), sample=sample, repairs=repair)
    if output is Format.JSON:
        print(json.dumps(to_json(found), indent=2))
    else:
        print_verification(found)
    code = exit_code(found)
    if code == DocumentRefused.exit_code and found.refused is not None:
        raise found.refused
    if code:
        raise typer.Exit(code)


def exit_code(found: Verification) -> int:
    """Give the worst of what happened: stopped, not compared, refused, or different."""
    if not found.is_whole:
        return _INTERRUPTED
    refused = found.refused
    codes = [lost.error.exit_code for lost in found.uncompared]
    return max([*codes, refused.exit_code if refused else 0, int(not found.agrees)])
