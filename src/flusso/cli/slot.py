"""`flusso slot show|create|advance|drop`: look at the replication slot, and do by hand what loses data."""

from __future__ import annotations

import contextlib
import json
from typing import Annotated

import typer

from flusso.capture.slot import advance_slot, check_slot, drop_slot, find_slot, reader_of
from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.confirm import Yes, confirm
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat, Prefix, Publication, Slot
from flusso.cli.progress import print_line
from flusso.cli.slot_text import print_problems, print_survey, survey_to_json
from flusso.engine.provision import create_slot
from flusso.engine.survey import SlotSurvey, survey_slot
from flusso.errors import ConfigError, SlotBusy, SlotLost
from flusso.lsn import Lsn
from flusso.postgres.connect import connect

app = typer.Typer(no_args_is_help=True, help="Look at the replication slot, make it, move it, drop it.")


@app.command()
def show(
    config: Config = DEFAULT_CONFIG,
    slot: Slot = None,
    index_prefix: Prefix = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the slot, who reads it, what it costs, and what is wrong with it; exit 1 if something is."""
    spec = pipeline_spec(load(config, slot=slot, prefix=index_prefix), makes_files=False)
    with connect(spec.dsn) as conn:
        survey = survey_slot(conn, spec)
    if output is Format.JSON:
        print(json.dumps(survey_to_json(survey), indent=2))
    else:
        print_survey(survey)
    if survey.problems:
        raise typer.Exit(1)


@app.command()
def create(
    config: Config = DEFAULT_CONFIG,
    slot: Slot = None,
    publication: Publication = None,
    index_prefix: Prefix = None,
) -> None:
    """Make the slot, after the publication: the next run seeds and follows from here."""
    spec = pipeline_spec(load(config, slot=slot, publication=publication, prefix=index_prefix))
    with connect(spec.dsn) as conn:
        info, is_new = create_slot(conn, spec, print_line)
        survey = survey_slot(conn, spec)
    where = f"at {info.confirmed_flush_lsn}"
    print(f'slot "{spec.slot}" is made {where}' if is_new else f'slot "{spec.slot}" is there, {where}')
    print_problems(survey, stderr=True)


@app.command()
def advance(
    to: Annotated[
        str | None,
        typer.Option("--to", envvar="FLUSSO_TO", help="The position; the end of the WAL if absent."),
    ] = None,
    yes: Yes = False,
    config: Config = DEFAULT_CONFIG,
    slot: Slot = None,
    index_prefix: Prefix = None,
) -> None:
    """Move the slot forward over changes that nobody will then write."""
    spec = pipeline_spec(load(config, slot=slot, prefix=index_prefix), makes_files=False)
    with connect(spec.dsn) as conn:
        survey = survey_slot(conn, spec)
        start = check_slot(find_slot(conn, spec.slot))
        target = survey.server.lsn if to is None else _parse(to)
        if target > survey.server.lsn:
            raise ConfigError(f"{target} is beyond the end of the WAL, {survey.server.lsn}")
        if target <= start:
            print(f'slot "{spec.slot}" is at {start} already: nothing to do')
            return
        _refuse_reader(survey)
        behind = survey.behind(target)
        confirm(
            f'slot "{spec.slot}" passes over {target - start:,} bytes of WAL, from {start} to {target}'
            + _consequence(behind, "miss the changes in there"),
            yes=yes,
        )
        advance_slot(conn, spec.slot, target)
        print(f'slot "{spec.slot}" is at {check_slot(find_slot(conn, spec.slot))}')


@app.command()
def drop(
    yes: Yes = False,
    config: Config = DEFAULT_CONFIG,
    slot: Slot = None,
    index_prefix: Prefix = None,
) -> None:
    """Drop the slot, and the position with it; the server then keeps no WAL for it."""
    spec = pipeline_spec(load(config, slot=slot, prefix=index_prefix), makes_files=False)
    with connect(spec.dsn) as conn:
        survey = survey_slot(conn, spec)
        if survey.info is None:
            print(f'slot "{spec.slot}" does not exist: nothing to do')
            return
        with contextlib.suppress(SlotLost):  # its position is gone already, it only takes a place
            check_slot(survey.info)
        _refuse_reader(survey)
        confirm(
            f'slot "{spec.slot}" is dropped, and its position with it'
            + _consequence(survey.indexes, "miss all changes from now on"),
            yes=yes,
        )
        drop_slot(conn, spec.slot)
        print(f'slot "{spec.slot}" is dropped')


def _parse(text: str) -> Lsn:
    try:
        return Lsn.parse(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not a WAL position", hint="write it as 16/B374D848") from None


def _refuse_reader(survey: SlotSurvey) -> None:
    info = survey.info
    if info is not None and info.active_pid is not None:
        raise SlotBusy(f'slot "{survey.name}" is read by {reader_of(info)}', hint="stop that reader first")


def _consequence(indexes: tuple[str, ...], what: str) -> str:
    if not indexes:
        return ""
    return f".\n{', '.join(indexes)} will {what} and need flusso reindex"
