"""`flusso reindex NAME…|--all`: have a new generation filled beside the serving one."""

from __future__ import annotations

from typing import Annotated

import typer

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Prefix, Slot
from flusso.cli.requests import chosen_indexes, is_running, keeping_sinks, opened
from flusso.engine.generations import Roles
from flusso.sinks.base import Request


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
    when = "the running flusso fills it now" if is_running(spec) else "the next run fills it"
    for index in chosen:
        for sink_spec in keeping_sinks(index):
            with opened(sink_spec) as sink:
                roles = Roles.of(sink.load_states().of(index.name))
                where = f'{index.name} in sink "{sink_spec.name}"'
                if roles.filling is not None:
                    print(f"{where}: generation {roles.filling.generation} is being filled already")
                    continue
                sink.ask(index.name, Request.REINDEX)
                print(f"{where}: a new generation is asked for: {when}")
