"""`flusso check`: find what is wrong before it hurts, without changing anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from flusso.builder.check.fit import find_problems
from flusso.builder.plan import blind_links, compile_index
from flusso.capture.prerequisites import inspect_prerequisites
from flusso.catalog import Catalog
from flusso.cli.assemble import dsn_of, load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat
from flusso.config.deployment import Deployment, ReplicaIdentity
from flusso.engine.spec import PipelineSpec
from flusso.errors import ConfigError, SourceError
from flusso.postgres.connect import Connection, connect
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of


class Level(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Found:
    """One finding."""

    level: Level
    code: str
    message: str
    hint: str | None = None


def check(
    config: Config = DEFAULT_CONFIG,
    offline: Annotated[
        bool, typer.Option("--offline", envvar="FLUSSO_OFFLINE", help="Look at the files only.")
    ] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Check the configuration, the schemas and the database."""
    findings = list(_find(config, offline=offline))
    if output is Format.JSON:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        _print(findings)
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(1)


def _find(config: Config, *, offline: bool) -> Iterator[Found]:
    try:
        deployment = load(config)
        spec = pipeline_spec(deployment)
    except ConfigError as error:
        for line in error.message.splitlines():
            yield Found(Level.ERROR, "config", line)
        return
    yield Found(Level.OK, "config", f"{config}: {len(spec.indexes)} index(es), files are right")
    if not offline:
        try:
            with connect(dsn_of(deployment)) as conn:
                yield from _find_in_database(conn, deployment, spec)
        except SourceError as error:
            yield Found(Level.ERROR, "source", error.message, error.hint)


def _find_in_database(conn: Connection, deployment: Deployment, spec: PipelineSpec) -> Iterator[Found]:
    for finding in inspect_prerequisites(conn):
        level = Level.ERROR if finding.is_error else Level.WARNING
        yield Found(level, finding.name, finding.message, finding.hint)
    catalog = read_catalog(conn, {table for index in spec.indexes for table in tables_of(index.schema)})
    problems = [one for index in spec.indexes for one in find_problems(index.name, index.schema, catalog)]
    for one in problems:
        yield Found(Level.ERROR, one.code, str(one))
    if not problems:
        yield Found(Level.OK, "schema", "all tables, columns and keys are there and fit")
        if deployment.source.replica_identity is ReplicaIdentity.CHECK:
            yield from _find_blind(spec, catalog)


def _find_blind(spec: PipelineSpec, catalog: Catalog) -> Iterator[Found]:
    """Say which relations follow every delete and move, and which cannot."""
    plans = [compile_index(index.name, index.schema, catalog) for index in spec.indexes]
    blind = blind_links(plans, catalog)
    for link in blind:
        yield Found(
            Level.WARNING,
            "blind-relation",
            f'index "{link.index}": a row of {link.table} that is deleted or moved leaves '
            f'"{link.field}" stale: the WAL does not carry its old {", ".join(link.columns)}',
            link.remedy_sql,
        )
    if not blind:
        yield Found(Level.OK, "relations", "every delete and move is seen: all relations are exact")


def _print(findings: list[Found]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    marks = {Level.ERROR: "[red]error  ", Level.WARNING: "[yellow]warning", Level.OK: "[green]ok     "}
    for finding in findings:
        console.print(marks[finding.level], end=" ")
        console.print(finding.message, markup=False)
        if finding.hint:
            console.print(f"        {finding.hint}", markup=False)
