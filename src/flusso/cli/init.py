"""`flusso init`: look at a database and write a deployment that works, to begin with."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as Grid

from flusso.builder.draft import draft_schema, unfit_root
from flusso.catalog import TableName
from flusso.cli.draft_text import deployment_text, schema_text
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat
from flusso.cli.report import open_console
from flusso.config.names import MAX_INDEX_BYTES, index_flaw
from flusso.config.secret import DATABASE_URL
from flusso.errors import ConfigError
from flusso.postgres.connect import Dsn, connect
from flusso.postgres.survey import Survey, read_survey
from flusso.schema.node import did_you_mean

_SHOWN = 40
"""Tables in a list; more would hide the question."""


def init(
    table: Annotated[
        str | None,
        typer.Option(
            envvar="FLUSSO_TABLE", help="The root table, as name or schema.name; asked for if absent."
        ),
    ] = None,
    schema: Annotated[
        str | None, typer.Option(envvar="FLUSSO_SCHEMA", help="Look at this schema of the database only.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="FLUSSO_URL", help=f"The database; {DATABASE_URL} if absent. It is not written down."
        ),
    ] = None,
    index: Annotated[
        str | None, typer.Option(envvar="FLUSSO_INDEX", help="The name of the index; the table's if absent.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", envvar="FLUSSO_FORCE", help="Overwrite files that are there already.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Write a flusso.toml and a schema from the tables of a database."""
    dsn = Dsn(_database(url))
    with connect(dsn) as conn:
        survey = read_survey(conn)
    root = _choose(survey, table, schema)
    name = index or _index_name(root.name)
    if (flaw := index_flaw(name)) is not None:
        raise ConfigError(f'"{name}" is no name for an index: {flaw}', hint="name one with --index")
    schema_file = config.with_name(f"{name}.schema.yml")
    files = {
        config: deployment_text(name, schema_file.name),
        schema_file: schema_text(draft_schema(survey, root)),
    }
    _write(files, is_forced=force)
    _report(files, root, name, config, output)


def _database(url: str | None) -> str:
    found = url or os.environ.get(DATABASE_URL, "")
    if not found:
        raise ConfigError(
            "no database was named",
            hint=f"export {DATABASE_URL}=postgresql://user:password@host/database, or give --url",
        )
    return found


def _choose(survey: Survey, table: str | None, schema: str | None) -> TableName:
    names = [name for name in survey.catalog.tables if schema is None or name.schema == schema]
    fit = [name for name in names if unfit_root(survey, name) is None]
    if table is not None:
        return _find(survey, names, table)
    if not fit:
        where = f"schema {schema}" if schema else "the database"
        raise ConfigError(
            f"{where} has no table that could be the root of an index", hint=_reasons(survey, names)
        )
    fit.sort(key=lambda name: (-(survey.rows[name] or 0), name))
    if not _is_terminal():
        raise ConfigError("no root table was named", hint="give one with --table: " + _listed(survey, fit))
    return _ask(survey, fit, names)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _reasons(survey: Survey, names: list[TableName]) -> str | None:
    return "; ".join(f"{name} {unfit_root(survey, name)}" for name in names[:_SHOWN]) or None


def _listed(survey: Survey, names: list[TableName]) -> str:
    shown = [f"{name} ({_estimate(survey, name)})" for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(shown) + more


def _estimate(survey: Survey, name: TableName) -> str:
    rows = survey.rows[name]
    return "size unknown" if rows is None else f"about {rows:,} rows"


def _find(survey: Survey, names: list[TableName], wanted: str) -> TableName:
    """Find a table by `name` or `schema.name`; of several with the name, that in public."""
    found = [name for name in names if wanted in (name.name, str(name))]
    exact = [name for name in found if name.schema == "public"] or found
    if not exact:
        hint = did_you_mean(wanted, [*(name.name for name in names), *map(str, names)])
        raise ConfigError(
            f'there is no table "{wanted}"', hint=hint or "flusso init without --table lists them"
        )
    if len(exact) > 1:
        raise ConfigError(
            f'there are several tables "{wanted}"', hint=f"name one of {', '.join(map(str, exact))}"
        )
    reason = unfit_root(survey, exact[0])
    if reason is not None:
        raise ConfigError(f"{exact[0]} cannot be the root of an index: it {reason}")
    return exact[0]


def _ask(survey: Survey, fit: list[TableName], names: list[TableName]) -> TableName:
    grid = Grid("", "table", "rows", title="Which table is a document made for each row of?")
    for number, name in enumerate(fit[:_SHOWN], 1):
        grid.add_row(str(number), str(name), _estimate(survey, name))
    open_console(stderr=True).print(grid, soft_wrap=False)
    while True:
        answer = typer.prompt("Number or name", err=True).strip()
        if answer.isdigit() and 1 <= int(answer) <= len(fit):
            return fit[int(answer) - 1]
        try:
            return _find(survey, names, answer)
        except ConfigError as error:
            typer.echo(str(error), err=True)


def _index_name(table: str) -> str:
    """Make a name that search servers take of a table's."""
    name = re.sub(r"[^\w-]+", "_", table.lower()).strip("_-")
    return name.encode()[:MAX_INDEX_BYTES].decode(errors="ignore") or "documents"


def _write(files: dict[Path, str], *, is_forced: bool) -> None:
    there = [str(path) for path in files if path.exists()]
    if there and not is_forced:
        raise ConfigError(
            f"{', '.join(there)} is there already", hint="--force overwrites; --config names another file"
        )
    for path, text in files.items():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {(error.strerror or 'not writable').lower()}") from error


def _report(files: dict[Path, str], root: TableName, name: str, config: Path, output: Format) -> None:
    if output is Format.JSON:
        print(
            json.dumps({"table": str(root), "index": name, "files": [str(path) for path in files]}, indent=2)
        )
        return
    flag = "" if config == DEFAULT_CONFIG else f" --config {config}"
    steps = {
        f"flusso check{flag}": "what the database still needs",
        f"flusso sample {name}{flag}": "one document",
        f"flusso run --once{flag}": "fill the index",
        f'flusso search {name} "…"{flag}': "look into it",
    }
    if DATABASE_URL not in os.environ:
        steps = {f"export {DATABASE_URL}=…": "the database that you named, which is not written down"} | steps
    print(f"wrote {' and '.join(str(path) for path in files)}: index {name} over {root}")
    print("next:")
    width = max(map(len, steps))
    for step, meaning in steps.items():
        print(f"  {step:<{width}}  {meaning}")
