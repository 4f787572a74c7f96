"""`flusso indexes`: every generation that the sinks hold, and what each is for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat, Prefix
from flusso.cli.report import printable
from flusso.cli.requests import opened
from flusso.engine.roster import sinks_of
from flusso.engine.spec import PipelineSpec
from flusso.sinks.base import Held, IndexState, Sink

_DIGITS = 12
ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class GenerationFacts:
    """One generation in one sink."""

    index: str
    sink: str
    generation: int
    state: str
    """`serving`, `frozen` (readers see it, nothing is written), `waiting` (whole, readers come next),
    `filling`, `kept`, `gone` (remembered, deleted by someone), `orphan` (nothing is remembered of it)."""
    documents: int | None
    bytes: int | None
    digest: str
    reason: str | None = None
    """Why nothing is written to it."""


def indexes(
    config: Config = DEFAULT_CONFIG, index_prefix: Prefix = None, output: OutputFormat = Format.TEXT
) -> None:
    """List the generations of all indexes, with documents, bytes and digest."""
    facts = gather_generations(pipeline_spec(load(config, prefix=index_prefix)))
    if output is Format.JSON:
        print(json.dumps({"generations": [asdict(each) for each in facts]}, indent=2))
    else:
        _print(facts)


def gather_generations(spec: PipelineSpec) -> list[GenerationFacts]:
    """Ask every sink that remembers anything."""
    found: list[GenerationFacts] = []
    for sink_spec in sinks_of(spec.indexes):
        if sink_spec.capabilities.keeps_state:
            with opened(sink_spec) as sink:
                found += _facts(sink_spec.name, sink)
    return sorted(found, key=lambda each: (each.index, each.sink, each.generation))


def _facts(name: str, sink: Sink) -> list[GenerationFacts]:
    held = {(each.index, each.generation): each for each in sink.held()}
    states = {(state.index, state.generation): state for state in sink.load_states().all}
    return [_fact(name, sink, held.get(place), states.get(place)) for place in held.keys() | states.keys()]


def _fact(name: str, sink: Sink, held: Held | None, state: IndexState | None) -> GenerationFacts:
    known = state or held
    assert known is not None
    return GenerationFacts(
        known.index,
        name,
        known.generation,
        _word(held, state),
        sink.count(known.target) if held is not None else None,
        held.bytes if held is not None else None,
        known.digest[:_DIGITS],
        (state.stale or None) if state is not None else None,
    )


def _word(held: Held | None, state: IndexState | None) -> str:
    if state is None:
        return ORPHAN
    if held is None:
        return "gone"
    if state.serves:
        return "frozen" if state.stale else "serving"
    if state.is_kept:
        return "kept"
    return "waiting" if state.is_seeded else "filling"


def _print(facts: Iterable[GenerationFacts]) -> None:
    console = Console(highlight=False)
    table = Table("index", "sink", "generation", "state", "documents", "bytes", "digest")
    for each in facts:
        numbers = ("-" if count is None else f"{count:,}" for count in (each.documents, each.bytes))
        table.add_row(each.index, each.sink, str(each.generation), each.state, *numbers, each.digest)
    console.print(table)
    for each in facts:
        if each.reason:
            console.print(
                f'"{each.index}" in sink "{each.sink}" is written no more: {printable(each.reason)}'
            )
