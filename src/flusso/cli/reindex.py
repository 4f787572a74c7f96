"""`flusso reindex NAME…|--all`: have a new generation filled beside the serving one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Prefix, Slot
from flusso.cli.requests import chosen_indexes, is_running, keeping_sinks, opened
from flusso.engine.generations import Roles
from flusso.sinks.base import IndexState, Request


def reindex(
    names: Annotated[list[str] | None, typer.Argument(help="The indexes to seed anew.")] = None,
    every: Annotated[bool, typer.Option("--all", envvar="FLUSSO_ALL", help="All indexes.")] = False,
    config: Config = DEFAULT_CONFIG,
    slot: Slot = None,
    index_prefix: Prefix = None,
) -> None:
    """Fill indexes anew; readers keep the old generation until the new one is whole."""
    spec = pipeline_spec(load(config, slot=slot, prefix=index_prefix))
    chosen = chosen_indexes(spec, names or [], every=every)
    running = is_running(spec)
    for index in chosen:
        if not keeping_sinks(index):
            print(f"{index.name}: none of its sinks keeps anything: every run fills it anew")
        for sink_spec in keeping_sinks(index):
            with opened(sink_spec) as sink:
                filling = _unfinished(sink.load_states().of(index.name))
                where = f'{index.name} in sink "{sink_spec.name}"'
                if running and filling is not None:
                    print(f"{where}: generation {filling.generation} is being filled already")
                    continue
                sink.ask(index.name, Request.REINDEX)
                print(f"{where}: a new generation is asked for: {_answer(filling, running=running)}")


def _unfinished(states: Sequence[IndexState]) -> IndexState | None:
    """Find what is being filled. One that is whole and waits for readers gives way to another."""
    filling = Roles.of(states).filling
    return None if filling is None or filling.is_seeded else filling


def _answer(filling: IndexState | None, *, running: bool) -> str:
    """Say who does it.

    What nobody is filling now may have lost its slot, and only a run finds that out: so it is asked for all
    the same, and the request allows another to take its place.
    """
    if running:
        return "the running flusso fills it now"
    if filling is None:
        return "the next run fills it"
    return f"the next run goes on with generation {filling.generation}, or with another if that lost changes"
