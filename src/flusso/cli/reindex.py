"""`flusso reindex NAME|--all`: let the next `run` seed a new generation beside the serving one."""

from __future__ import annotations

from typing import Annotated

import typer

from flusso.capture.slot import read_slot
from flusso.cli.assemble import dsn_of, load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Prefix, Slot
from flusso.engine.continuity import renewed
from flusso.errors import ConfigError, SlotBusy
from flusso.postgres.connect import connect


def reindex(
    names: Annotated[list[str] | None, typer.Argument(help="The indexes to seed anew.")] = None,
    every: Annotated[bool, typer.Option("--all", envvar="FLUSSO_ALL", help="All indexes.")] = False,
    config: Config = DEFAULT_CONFIG,
    slot: Slot = None,
    index_prefix: Prefix = None,
) -> None:
    """Mark indexes to be seeded anew; readers keep the old generation until the new one is whole."""
    deployment = load(config, slot=slot, prefix=index_prefix)
    spec = pipeline_spec(deployment)
    known = [index.name for index in spec.indexes]
    chosen = known if every else names or []
    unknown = [name for name in chosen if name not in known]
    if unknown or not chosen:
        raise ConfigError(
            f"there is no index {', '.join(unknown)}" if unknown else "no index was named",
            hint=f"name one of {', '.join(known)}, or --all",
        )
    with connect(dsn_of(deployment)) as conn:
        info = read_slot(conn, spec.slot)
    if info is not None and info.active_pid is not None:
        raise SlotBusy(
            f'slot "{spec.slot}" is being read by pid {info.active_pid}', hint="stop that flusso first"
        )
    for index in spec.indexes:
        if index.name in chosen:
            for sink_spec in index.sinks:
                sink = sink_spec.open()
                try:
                    state = sink.load_states().newest(index.name)
                    if state is not None:
                        sink.save_state(renewed(state))
                finally:
                    sink.close()
            print(f"{index.name}: the next run seeds a new generation")
