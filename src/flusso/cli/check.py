"""`flusso check`: find what is wrong before it hurts, without changing anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from flusso.capture.slot_facts import inspect_slot
from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.blind_text import print_seen, relations_to_json
from flusso.cli.located import with_places
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat, Prefix, Publication, Slot
from flusso.cli.report import open_console, print_findings, summarize, to_json
from flusso.diagnostic import Code, Diagnostic, Severity
from flusso.engine.blind import Blind, Seen
from flusso.engine.preflight import examine
from flusso.engine.roster import sinks_of
from flusso.engine.spec import PipelineSpec
from flusso.errors import ConfigError, FlussoError, SourceError, SourceUnavailable
from flusso.postgres.connect import connect
from flusso.sinks.base import States
from flusso.sinks.search.connection import SearchSpec

_ASK_S = 5.0
"""How long a sink may take to answer."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found, and how far the look went."""

    findings: tuple[Diagnostic, ...]
    what: str = ""
    """What was looked at and is right, in words."""
    blind: tuple[Blind, ...] = ()
    seen: tuple[Seen, ...] = ()


def check(
    config: Config = DEFAULT_CONFIG,
    offline: Annotated[
        bool, typer.Option("--offline", envvar="FLUSSO_OFFLINE", help="Look at the files only.")
    ] = False,
    slot: Slot = None,
    publication: Publication = None,
    index_prefix: Prefix = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Check the configuration, the schemas and the database."""
    overrides = {"slot": slot, "publication": publication, "prefix": index_prefix}
    checked = _check(config, offline=offline, overrides=overrides)
    findings = checked.findings
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    if output is Format.JSON:
        counts = {
            "errors": errors,
            "warnings": sum(finding.severity is Severity.WARNING for finding in findings),
        }
        facts = {
            "findings": [to_json(finding) for finding in findings],
            "relations": relations_to_json(checked.blind, checked.seen),
        }
        print(json.dumps(facts | counts, indent=2))
    else:
        console = open_console(stderr=False)
        print_findings(console, findings)
        print_seen(console, checked.seen)
        is_ok = all(finding.severity is Severity.NOTE for finding in findings)
        console.print(f"ok: {checked.what}" if is_ok else summarize(findings))
    if errors:
        raise typer.Exit(1)


def _check(config: Path, *, offline: bool, overrides: Mapping[str, str | None]) -> Checked:
    try:
        deployment = load(config, **overrides)
        spec = pipeline_spec(deployment, makes_files=False)
    except ConfigError as error:
        return Checked(error.problems or (Diagnostic(Code.INVALID_VALUE, error.message, error.hint),))
    names = f"{len(spec.indexes)} index{'' if len(spec.indexes) == 1 else 'es'}"
    if offline:
        return Checked(deployment.warnings, f"{names}, the files are right")
    try:
        with connect(spec.dsn) as conn:
            examined = examine(conn, spec, lambda: _ask_sinks(spec))
            about_slot = inspect_slot(conn, spec.slot, reseeds=spec.reseeds)
    except SourceError as error:
        code = Code.SOURCE_UNAVAILABLE if isinstance(error, SourceUnavailable) else Code.SOURCE_REFUSED
        return Checked((*deployment.warnings, Diagnostic(code, error.message, error.hint)))
    tables = len(examined.catalog.tables)
    return Checked(
        (*deployment.warnings, *with_places((*examined.findings, *about_slot), deployment)),
        f"{names} over {tables} table{'' if tables == 1 else 's'}, files and database fit",
        examined.blind,
        examined.seen,
    )


def _ask_sinks(spec: PipelineSpec) -> list[States]:
    """Read what the sinks remember, of those that tell without much ado: `check` is for the source."""
    found: list[States] = []
    for sink in sinks_of(spec.indexes):
        if isinstance(sink, SearchSpec):
            sink = replace(sink, max_retries=0, timeout_s=min(sink.timeout_s, _ASK_S))
        if sink.capabilities.keeps_state:
            with suppress(FlussoError), closing(sink.open()) as opened:
                found.append(opened.load_states())
    return found
