"""`flusso indexes`: every generation that the sinks hold, and what each is for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import typer
from rich.console import Console
from rich.table import Table

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat, Prefix
from flusso.cli.report import printable
from flusso.cli.requests import opened
from flusso.engine.roster import sinks_of
from flusso.engine.spec import PipelineSpec
from flusso.errors import GenerationGone, SinkError
from flusso.sinks.base import Held, IndexState, IndexTarget, Sink

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
    `filling`, `kept`, `unread` (readers are to see it, someone led them away), `gone` (remembered, deleted by
    someone), `orphan` (nothing is remembered of it)."""
    documents: int | None
    bytes: int | None
    digest: str
    reason: str | None = None
    """Why nothing is written to it."""
    error: str | None = None
    """Why its documents cannot be counted."""


def indexes(
    config: Config = DEFAULT_CONFIG, index_prefix: Prefix = None, output: OutputFormat = Format.TEXT
) -> None:
    """List the generations of all indexes, with documents, bytes and digest."""
    facts, errors = gather_generations(pipeline_spec(load(config, prefix=index_prefix), makes_files=False))
    if output is Format.JSON:
        print(json.dumps({"generations": [asdict(each) for each in facts], "errors": errors}, indent=2))
    else:
        _print(facts, errors)
    if errors or any(each.error is not None for each in facts):
        raise typer.Exit(SinkError.exit_code)


def gather_generations(spec: PipelineSpec) -> tuple[list[GenerationFacts], dict[str, str]]:
    """Ask every sink that remembers anything; by name of the sink why one does not tell."""
    found: list[GenerationFacts] = []
    errors: dict[str, str] = {}
    for sink_spec in sinks_of(spec.indexes):
        if sink_spec.capabilities.keeps_state:
            try:
                with opened(sink_spec) as sink:
                    found += _facts(sink_spec.name, sink)
            except SinkError as error:
                errors[sink_spec.name] = str(error)
    return sorted(found, key=lambda each: (each.index, each.sink, each.generation)), errors


def _facts(name: str, sink: Sink) -> list[GenerationFacts]:
    held = {(each.index, each.generation): each for each in sink.held()}
    states = {(state.index, state.generation): state for state in sink.load_states().all}
    return [_fact(name, sink, held.get(place), states.get(place)) for place in held.keys() | states.keys()]


def _fact(name: str, sink: Sink, held: Held | None, state: IndexState | None) -> GenerationFacts:
    known = state or held
    assert known is not None
    documents, error = _count(sink, known.target) if held is not None else (None, None)
    return GenerationFacts(
        known.index,
        name,
        known.generation,
        _word(held, state),
        documents,
        held.bytes if held is not None else None,
        known.digest[:_DIGITS],
        (state.stale or None) if state is not None else None,
        error,
    )


def _count(sink: Sink, target: IndexTarget) -> tuple[int | None, str | None]:
    """Count documents, or say why that is not possible; what is gone by now has none."""
    try:
        return sink.count(target), None
    except GenerationGone:
        return None, None
    except SinkError as error:
        return None, str(error)


def _word(held: Held | None, state: IndexState | None) -> str:
    if state is None:
        return ORPHAN
    if held is None:
        return "gone"
    if state.serves and not held.is_read:
        return "unread"
    if state.serves:
        return "frozen" if state.stale else "serving"
    if state.is_kept:
        return "kept"
    return "waiting" if state.is_seeded else "filling"


def _print(facts: Sequence[GenerationFacts], errors: Mapping[str, str]) -> None:
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
        if each.error:
            what = f'generation {each.generation} of "{each.index}" in sink "{each.sink}"'
            console.print(f"{what}: {printable(each.error)}")
    for sink, error in errors.items():
        console.print(f'sink "{sink}": {printable(error)}')
