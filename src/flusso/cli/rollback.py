"""`flusso rollback NAME…`: lead readers back to the generation that they saw before."""

from __future__ import annotations

from typing import Annotated

import typer

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Prefix, Slot
from flusso.cli.requests import chosen_indexes, is_running, keeping_sinks, opened
from flusso.engine.generations import Roles
from flusso.errors import SinkRefused
from flusso.sinks.base import Request, States


def rollback(
    names: Annotated[list[str] | None, typer.Argument(help="The indexes to lead back.")] = None,
    config: Config = DEFAULT_CONFIG,
    slot: Slot = None,
    index_prefix: Prefix = None,
) -> None:
    """Lead readers back to the generation before, which `keep_generations` has kept."""
    spec = pipeline_spec(load(config, slot=slot, prefix=index_prefix))
    chosen = chosen_indexes(spec, names or [], every=False)
    when = "the running flusso leads them now" if is_running(spec) else "the next run leads them"
    for index in chosen:
        for sink_spec in keeping_sinks(index):
            with opened(sink_spec) as sink:
                back = _back(sink.load_states(), index.name)
                sink.ask(index.name, Request.ROLLBACK)
                where = f'{index.name} in sink "{sink_spec.name}"'
                print(f"{where}: readers go back to generation {back}: {when} there")


def _back(states: States, index: str) -> int:
    """Find the generation to go back to; refuse when there is none."""
    roles = Roles.of(states.of(index))
    if roles.filling is not None:
        raise SinkRefused(
            f'generation {roles.filling.generation} of index "{index}" is being filled, '
            "and readers do not see it yet",
            hint="put the former schema back and it is dropped",
        )
    back = roles.back()
    if back is None:
        raise SinkRefused(
            f'no earlier generation of index "{index}" is kept', hint="set keep_generations to keep some"
        )
    return back.generation
