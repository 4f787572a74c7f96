"""`flusso rollback NAME…`: lead readers back to the generation that they saw before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Prefix, Slot
from flusso.cli.requests import chosen_indexes, is_running, keeping_sinks, opened
from flusso.engine.generations import Roles
from flusso.engine.spec import IndexSpec
from flusso.errors import SinkRefused
from flusso.sinks.base import IndexState, Request, SinkSpec, States


def rollback(
    names: Annotated[list[str] | None, typer.Argument(help="The indexes to lead back.")] = None,
    config: Config = DEFAULT_CONFIG,
    slot: Slot = None,
    index_prefix: Prefix = None,
) -> None:
    """Lead readers back to the generation before, which `keep_generations` has kept."""
    spec = pipeline_spec(load(config, slot=slot, prefix=index_prefix), makes_files=False)
    chosen = chosen_indexes(spec, names or [], every=False)
    when = "the running flusso leads them now" if is_running(spec) else "the next run leads them"
    for index, sink_spec, back in [_backed(*each) for each in _places(chosen)]:  # all are looked at first
        with opened(sink_spec) as sink:
            sink.ask(index, Request.ROLLBACK, back)
        print(f'{index} in sink "{sink_spec.name}": readers go back to generation {back}: {when} there')


def _places(indexes: Iterable[IndexSpec]) -> list[tuple[str, SinkSpec]]:
    places = [(index, keeping_sinks(index)) for index in indexes]
    for index, sinks in places:
        if not sinks:
            raise SinkRefused(f'no sink of index "{index.name}" keeps anything to go back to')
    return [(index.name, sink) for index, sinks in places for sink in sinks]


def _backed(index: str, sink_spec: SinkSpec) -> tuple[str, SinkSpec, int]:
    with opened(sink_spec) as sink:
        return index, sink_spec, _back(sink.load_states(), index)


def _back(states: States, index: str) -> int:
    """Find the generation to go back to; refuse when there is none."""
    roles = Roles.of(states.of(index))
    if roles.filling is not None:
        raise SinkRefused(
            f'generation {roles.filling.generation} of index "{index}" is being filled, '
            "and readers do not see it yet",
            hint=_remedy(roles.serving, roles.filling),
        )
    back = roles.back()
    if back is None:
        raise SinkRefused(
            f'no earlier generation of index "{index}" is kept', hint="set keep_generations to keep some"
        )
    return back.generation


def _remedy(serving: IndexState | None, filling: IndexState) -> str:
    """Say what becomes of a generation that is being filled: a reindex has no other schema to put back."""
    if serving is not None and serving.digest != filling.digest:
        return "put the former schema back and it is dropped"
    return "let it become whole first: flusso indexes shows how far it is"
