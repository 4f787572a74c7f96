"""Look at the source before anything is made or written: the server, and how the schemas fit the database.

`check` shows what is found here; a pipeline begins with the same look and does not start on errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flusso.builder.check.database import check_schemas
from flusso.builder.plan import IndexPlan, blind_links, find_shared_rows, watched_tables
from flusso.capture.prerequisites import inspect_prerequisites
from flusso.capture.publication import inspect_publication
from flusso.catalog import Catalog
from flusso.diagnostic import Code, Diagnostic, Severity
from flusso.engine.spec import PipelineSpec
from flusso.errors import SchemaError, SourceRefused
from flusso.postgres.connect import Connection
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found, and what was read on the way."""

    findings: tuple[Diagnostic, ...]
    catalog: Catalog
    plans: tuple[IndexPlan, ...]
    """Of the indexes that fit."""


def examine(conn: Connection, spec: PipelineSpec) -> Examined:
    """Find all there is to find; changes nothing."""
    findings = inspect_prerequisites(conn)
    catalog = read_catalog(conn, {table for index in spec.indexes for table in tables_of(index.schema)})
    checked = check_schemas(conn, {index.name: index.schema for index in spec.indexes}, catalog)
    findings += checked.findings
    watched = watched_tables(checked.plans)
    findings += find_shared_rows(watched)
    columns = {table.name: table.columns for table in watched}
    findings += inspect_publication(
        conn, spec.publication, list(columns), manage=spec.manage_publication, columns=columns
    )
    if spec.reports_blind:
        findings += _blind(checked.plans, catalog)
    return Examined(tuple(findings), catalog, checked.plans)


def refuse(findings: Sequence[Diagnostic]) -> None:
    """Raise when there are errors: about a schema if any is, else about the source."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if any(finding.index for finding in errors):
        raise SchemaError.of(errors)
    if errors:
        raise SourceRefused(
            "; ".join(finding.message for finding in errors),
            hint="; ".join(finding.hint for finding in errors if finding.hint) or None,
        )


def _blind(plans: Sequence[IndexPlan], catalog: Catalog) -> Iterator[Diagnostic]:
    for link in blind_links(plans, catalog):
        left = f'"{link.field}"' if link.field else "its document"
        yield Diagnostic(
            Code.BLIND_RELATION,
            f"a row of {link.table} that is deleted or moved leaves {left} stale: "
            f"the WAL does not carry its old {', '.join(link.columns)}",
            link.remedy_sql,
            index=link.index,
            field=link.field,
        )
