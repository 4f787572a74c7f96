"""`flusso quarantine list|show|retry|drop`: look at refused documents, try them again, or let them go."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flusso.builder.plan import IndexPlan, compile_index
from flusso.builder.references import Reference
from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat, Prefix
from flusso.cli.report import printable
from flusso.document import Refusal
from flusso.engine import quarantine as engine
from flusso.engine import work
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.engine.work import Destination
from flusso.errors import ConfigError, DocumentMissing
from flusso.lsn import Version
from flusso.postgres.connect import Connection, connect
from flusso.postgres.introspect import read_catalog
from flusso.schema.digest import digest
from flusso.schema.mapping import text_field_names
from flusso.schema.model import tables_of
from flusso.sinks.base import IndexState, IndexTarget, SinkSpec

app = typer.Typer(no_args_is_help=True, help="Look at refused documents, try them again, let them go.")

Index = Annotated[str, typer.Argument(help="The index.")]
Ids = Annotated[list[str] | None, typer.Argument(help="Ids of documents.")]
Every = Annotated[bool, typer.Option("--all", envvar="FLUSSO_ALL", help="All of the index.")]
_CHUNK = 1000


@app.command("list")
def list_(
    index: Annotated[str | None, typer.Argument(help="The index; all if absent.")] = None,
    config: Config = DEFAULT_CONFIG,
    index_prefix: Prefix = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List refused documents, the latest first."""
    with _opened(pipeline_spec(load(config, prefix=index_prefix), makes_files=False)) as spec:
        indexes = spec.indexes if index is None else (_find(spec, index),)
        found = [refusal for each in indexes for _, held in _held(each) for refusal in held]
    found.sort(key=lambda refusal: -refusal.at)
    if output is Format.JSON:
        print(json.dumps([_facts(refusal) for refusal in found], indent=2))
        return
    console = Console(highlight=False)
    console.print(f"{len(found)} document(s) in quarantine")
    if found:
        table = Table("index", "id", "sink", "reason", "refused at", "position", "attempts")
        for refusal in found:
            facts = _facts(refusal)
            names = ("index", "id", "sink", "reason", "refused_at", "position", "attempts")
            table.add_row(*(printable(str(facts[name])) for name in names))
        console.print(table)


@app.command()
def show(
    index: Index,
    document: Annotated[str, typer.Argument(metavar="ID", help="The id of the document.")],
    config: Config = DEFAULT_CONFIG,
    index_prefix: Prefix = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show why each sink refused a document, and when."""
    with _opened(pipeline_spec(load(config, prefix=index_prefix), makes_files=False)) as spec:
        held = _held(_find(spec, index))
        found = [refusal for _, refusals in held for refusal in refusals if refusal.id == document]
    if not found:
        raise _not_held(index, [document])
    if output is Format.JSON:
        print(json.dumps([_facts(refusal) for refusal in found], indent=2))
        return
    for refusal in found:
        for name, value in _facts(refusal).items():
            print(f"{name:<11} {printable(str(value))}")


@app.command()
def retry(
    index: Index,
    documents: Ids = None,
    every: Every = False,
    config: Config = DEFAULT_CONFIG,
    index_prefix: Prefix = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Build documents anew and write them; exit 1 when some are refused again. A running flusso may go on."""
    with _opened(pipeline_spec(load(config, prefix=index_prefix), makes_files=False)) as spec:
        chosen = _find(spec, index)
        wanted = _wanted(chosen, documents, every=every)
        with connect(spec.dsn) as conn:
            refused = [each for sink, ids in wanted for each in _retry(conn, chosen, sink, ids)]
    taken = sum(len(ids) for _, ids in wanted) - len(refused)
    if output is Format.JSON:
        print(json.dumps({"taken": taken, "refused": [_facts(refusal) for refusal in refused]}, indent=2))
    else:
        print(f"{taken} document(s) taken, {len(refused)} refused again")
        for refusal in refused:
            print(printable(f"  {refusal.index}/{refusal.id} in {refusal.sink}: {refusal.reason}"))
    if refused:
        raise typer.Exit(1)


@app.command()
def drop(
    index: Index,
    documents: Ids = None,
    every: Every = False,
    config: Config = DEFAULT_CONFIG,
    index_prefix: Prefix = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Forget refused documents: the index keeps what it had of them before."""
    with _opened(pipeline_spec(load(config, prefix=index_prefix), makes_files=False)) as spec:
        chosen = _find(spec, index)
        gone = 0
        for sink, ids in _wanted(chosen, documents, every=every):
            newest = max(each.version for each in work.sink(sink).quarantined(index))
            gone += work.sink(sink).release(index, ids, newest)
    print(json.dumps({"dropped": gone}) if output is Format.JSON else f"{gone} document(s) forgotten")


@contextlib.contextmanager
def _opened(spec: PipelineSpec) -> Iterator[PipelineSpec]:
    """Close at the end whatever sinks were opened on the way."""
    try:
        yield spec
    finally:
        work.forget()


def _find(spec: PipelineSpec, name: str) -> IndexSpec:
    for index in spec.indexes:
        if index.name == name:
            return index
    names = ", ".join(index.name for index in spec.indexes)
    raise ConfigError(f'there is no index "{name}"', hint=f"one of: {names}")


def _held(index: IndexSpec) -> list[tuple[SinkSpec, Sequence[Refusal]]]:
    return [(sink, work.sink(sink).quarantined(index.name)) for sink in index.sinks]


def _wanted(index: IndexSpec, ids: Sequence[str] | None, *, every: bool) -> list[tuple[SinkSpec, list[str]]]:
    """Give by sink the documents that are meant; each must be in quarantine."""
    if every == bool(ids):
        raise ConfigError("no document was named" if not every else "either ids or --all", hint="see --help")
    held = [(sink, {refusal.id for refusal in refusals}) for sink, refusals in _held(index)]
    missing = [id_ for id_ in ids or () if not any(id_ in known for _, known in held)]
    if missing:
        raise _not_held(index.name, missing)
    chosen = [(sink, sorted(known if every else known & set(ids or ()))) for sink, known in held]
    return [(sink, found) for sink, found in chosen if found]


def _not_held(index: str, ids: Sequence[str]) -> DocumentMissing:
    return DocumentMissing(
        f'index "{index}" has no document {", ".join(ids)} in quarantine',
        hint=f"see flusso quarantine list {index}",
    )


def _retry(conn: Connection, index: IndexSpec, sink: SinkSpec, ids: Sequence[str]) -> list[Refusal]:
    fit = digest(index.schema, sink.shape)
    states = [state for state in work.sink(sink).load_states().of(index.name) if state.digest == fit]
    if not states:
        raise ConfigError(
            f'sink "{sink.name}" has no generation of index "{index.name}" as it is declared now',
            hint="run flusso: the new one is filled with all documents",
        )
    plan = _compile(conn, index, states)
    destinations = [Destination(sink, _target(index, state)) for state in states]
    chunks = [ids[at : at + _CHUNK] for at in range(0, len(ids), _CHUNK)]
    return [each for chunk in chunks for each in engine.retry(conn, plan, destinations, chunk)]


def _compile(conn: Connection, index: IndexSpec, states: Sequence[IndexState]) -> IndexPlan:
    references = {Reference.parse(text) for state in states for text in state.references}
    catalog = read_catalog(conn, tables_of(index.schema))
    return compile_index(index.name, index.schema, catalog, references)


def _target(index: IndexSpec, state: IndexState) -> IndexTarget:
    is_filled = not (state.serves or state.is_kept)
    return replace(state.target, text_fields=text_field_names(index.schema), keeps_removals=is_filled)


def _facts(refusal: Refusal) -> dict[str, Any]:
    at = datetime.fromtimestamp(refusal.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "index": refusal.index,
        "id": refusal.id,
        "sink": refusal.sink,
        "reason": refusal.reason,
        "position": str(Version(refusal.version).lsn),
        "refused_at": at,
        "attempts": refusal.attempts,
    }
