"""`flusso sample INDEX [ID]`: show one document as it would be written, without writing it."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from flusso.builder.plan import compile_index
from flusso.builder.read import Built
from flusso.builder.sample import document_of, some_document
from flusso.cli.assemble import dsn_of, load
from flusso.cli.located import placed
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat
from flusso.config.deployment import Deployment, IndexSettings
from flusso.errors import ConfigError
from flusso.postgres.connect import connect
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of
from flusso.sinks.stdout import indented


def sample(
    index: Annotated[str, typer.Argument(help="The index whose document to show.")],
    document: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="Its id, as the index has it. Without one: some document."),
    ] = None,
    config: Config = DEFAULT_CONFIG,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show one document as it would be written."""
    deployment = load(config)
    built = _build(deployment, _find(deployment, index), document)
    assert built.body is not None
    text = built.body.decode()
    if output is Format.JSON:
        text = f'{{"index":{json.dumps(index)},"id":{json.dumps(built.id)},"document":{text}}}'
    if _is_terminal():
        text = indented(text)
    sys.stdout.buffer.write(f"{text}\n".encode())


def _find(deployment: Deployment, name: str) -> IndexSettings:
    for index in deployment.indexes:
        if index.name == name:
            return index
    names = ", ".join(index.name for index in deployment.indexes)
    raise ConfigError(f'there is no index "{name}"', hint=f"one of: {names}")


def _build(deployment: Deployment, index: IndexSettings, id_: str | None) -> Built:
    with connect(dsn_of(deployment)) as conn:
        catalog = read_catalog(conn, tables_of(index.schema))
        with placed(deployment):
            plan = compile_index(index.name, index.schema, catalog)
        return some_document(conn, plan) if id_ is None else document_of(conn, plan, catalog, id_)


def _is_terminal() -> bool:
    return sys.stdout.isatty()
