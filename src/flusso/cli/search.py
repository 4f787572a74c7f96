"""`flusso search INDEX QUERY`: look into an index from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring as quoted
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat, Prefix
from flusso.engine.spec import PipelineSpec
from flusso.errors import ConfigError
from flusso.sinks.base import Hit, SinkSpec
from flusso.sinks.stdout import indented


def search(
    index: Annotated[str, typer.Argument(help="The index to search.")],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    config: Config = DEFAULT_CONFIG,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, envvar="FLUSSO_LIMIT", help="How many hits at most.")
    ] = 10,
    index_prefix: Prefix = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Full-text search, best hits first."""
    sink = _sink_for(pipeline_spec(load(config, prefix=index_prefix)), index).open()
    try:
        hits = sink.search(index, query, limit)
    finally:
        sink.close()
    if output is Format.JSON:
        print(json_of(hits))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{len(hits)} hit(s)")
    for hit in hits:
        console.print(f"[bold]{escape(hit.id)}[/bold]  [dim]{hit.score:.2f}")
        console.print("  " + hit.body.decode(), markup=False)


def json_of(hits: Sequence[Hit]) -> str:
    """Lay hits out as JSON, each document with the digits it has."""
    found = (
        f'{{"id":{quoted(hit.id)},"score":{hit.score!r},"document":{hit.body.decode()}}}' for hit in hits
    )
    return indented(f"[{','.join(found)}]")


def _sink_for(spec: PipelineSpec, index: str) -> SinkSpec:
    for known in spec.indexes:
        if known.name == index:
            for sink in known.sinks:
                if sink.capabilities.can_search:
                    return sink
            raise ConfigError(
                f'index "{index}" has no sink that can search', hint="add a sqlite or opensearch sink"
            )
    names = ", ".join(known.name for known in spec.indexes)
    raise ConfigError(f'there is no index "{index}"', hint=f"one of: {names}")
