"""`flusso search INDEX QUERY`: look into an index from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from json.encoder import encode_basestring as quoted
from typing import Annotated

import typer
from rich.text import Text

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat, Prefix
from flusso.cli.report import open_console, printable
from flusso.cli.snippet import snippet
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.errors import ConfigError, IndexUnready
from flusso.schema.model import Group, IndexSchema, Join
from flusso.sinks.base import Hit, SinkSpec, States
from flusso.sinks.stdout import indented


def search(
    index: Annotated[str, typer.Argument(help="The index to search.")],
    query: Annotated[str, typer.Argument(help="What to look for; may be left out with --where.")] = "",
    config: Config = DEFAULT_CONFIG,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, envvar="FLUSSO_LIMIT", help="How many hits at most.")
    ] = 10,
    where: Annotated[
        list[str] | None,
        typer.Option(
            envvar="FLUSSO_WHERE",
            metavar="FIELD=VALUE",
            help="Only documents with this value: of a field, or of one in a relation as orders.status.",
        ),
    ] = None,
    index_prefix: Prefix = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Full-text search, best hits first."""
    known = _find(pipeline_spec(load(config, prefix=index_prefix), makes_files=False), index)
    conditions = [_condition(known.schema, text) for text in where or ()]
    if not query.strip() and not conditions:
        raise ConfigError("there is nothing to look for", hint="give words, or --where FIELD=VALUE")
    spec = _sink_for(known)
    with closing(spec.open()) as sink:
        hits = sink.search(index, query, limit, conditions)
        if not hits:
            _check_filled(sink.load_states(), index, spec.name)
    if output is Format.JSON:
        print(json_of(hits, query))
    else:
        print_hits(hits, query)


def print_hits(hits: Sequence[Hit], query: str) -> None:
    """Print hits for a reader, best first."""
    console = open_console(stderr=False)
    console.print(f"{len(hits)} hit(s)")
    for hit in hits:
        console.print(Text.assemble((printable(hit.id), "bold"), "  ", (f"{hit.score:.2f}", "dim")))
        if found := snippet(hit.body.decode(), query):
            console.print("  " + printable(found), style="italic")
        console.print("  " + hit.body.decode())


def json_of(hits: Sequence[Hit], query: str = "") -> str:
    """Lay hits out as JSON, each document with the digits it has."""
    found = (
        f'{{"id":{quoted(hit.id)},"score":{hit.score!r},'
        f'"snippet":{quoted(snippet(hit.body.decode(), query))},"document":{hit.body.decode()}}}'
        for hit in hits
    )
    return indented(f"[{','.join(found)}]")


def _find(spec: PipelineSpec, index: str) -> IndexSpec:
    for known in spec.indexes:
        if known.name == index:
            return known
    names = ", ".join(known.name for known in spec.indexes)
    raise ConfigError(f'there is no index "{index}"', hint=f"one of: {names}")


def _sink_for(index: IndexSpec) -> SinkSpec:
    for sink in index.sinks:
        if sink.capabilities.can_search:
            return sink
    raise ConfigError(
        f'index "{index.name}" has no sink that can search', hint="add a search server or a sqlite sink"
    )


def _check_filled(states: States, index: str, sink: str) -> None:
    """Refuse to call nothing a result where there is nothing to find it in."""
    if states.serving(index) is None:
        begun = states.newest(index) is not None
        raise IndexUnready(
            f'index "{index}" {"is still being filled" if begun else "was never filled"} in sink "{sink}"',
            hint="wait for flusso run to fill it" if begun else "run flusso run first",
        )


def _condition(schema: IndexSchema, text: str) -> tuple[str, str]:
    """Read FIELD=VALUE; the field must be one that documents have."""
    path, sign, value = text.partition("=")
    if not sign:
        raise ConfigError(f'"{text}" is no condition', hint="write FIELD=VALUE, as status=paid")
    fields = schema.fields
    for name in path.strip().split("."):
        found = next((item for item in fields if item.name == name), None)
        if found is None:
            names = ", ".join(item.name for item in fields) or "nothing below it"
            raise ConfigError(f'"{path}" is no field of a document: there is no "{name}"', hint=names)
        fields = found.fields if isinstance(found, Join | Group) else ()
    return path.strip(), value
