"""`flusso check`: find what is wrong before it hurts, without changing anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.located import with_places
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat
from flusso.cli.report import open_console, print_findings, summarize, to_json
from flusso.diagnostic import Code, Diagnostic, Severity
from flusso.engine.preflight import examine
from flusso.errors import ConfigError, SourceError, SourceUnavailable
from flusso.postgres.connect import connect


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found, and how far the look went."""

    findings: tuple[Diagnostic, ...]
    what: str = ""
    """What was looked at and is right, in words."""


def check(
    config: Config = DEFAULT_CONFIG,
    offline: Annotated[
        bool, typer.Option("--offline", envvar="FLUSSO_OFFLINE", help="Look at the files only.")
    ] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Check the configuration, the schemas and the database."""
    checked = _check(config, offline=offline)
    findings = checked.findings
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    if output is Format.JSON:
        counts = {
            "errors": errors,
            "warnings": sum(finding.severity is Severity.WARNING for finding in findings),
        }
        print(json.dumps({"findings": [to_json(finding) for finding in findings]} | counts, indent=2))
    else:
        console = open_console(stderr=False)
        print_findings(console, findings)
        console.print(summarize(findings) if findings else f"ok: {checked.what}")
    if errors:
        raise typer.Exit(1)


def _check(config: Path, *, offline: bool) -> Checked:
    try:
        deployment = load(config)
        spec = pipeline_spec(deployment)
    except ConfigError as error:
        return Checked(error.problems or (Diagnostic(Code.INVALID_VALUE, error.message, error.hint),))
    names = f"{len(spec.indexes)} index{'' if len(spec.indexes) == 1 else 'es'}"
    if offline:
        return Checked(deployment.warnings, f"{names}, the files are right")
    try:
        with connect(spec.dsn) as conn:
            examined = examine(conn, spec)
    except SourceError as error:
        code = Code.SOURCE_UNAVAILABLE if isinstance(error, SourceUnavailable) else Code.SOURCE_REFUSED
        return Checked((*deployment.warnings, Diagnostic(code, error.message, error.hint)))
    tables = len(examined.catalog.tables)
    return Checked(
        (*deployment.warnings, *with_places(examined.findings, deployment)),
        f"{names} over {tables} table{'' if tables == 1 else 's'}, files and database fit",
    )
