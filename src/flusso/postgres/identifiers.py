"""The one place that quotes names for SQL."""

from __future__ import annotations

from collections.abc import Iterable

from flusso.catalog import TableName


def quote(name: str) -> str:
    """Quote an identifier, always, so that case, spaces and reserved words survive."""
    return '"' + name.replace('"', '""') + '"'


def quote_table(table: TableName) -> str:
    """Quote a table with its schema."""
    return f"{quote(table.schema)}.{quote(table.name)}"


def quote_list(names: Iterable[str]) -> str:
    """Quote names and join them with commas."""
    return ", ".join(quote(name) for name in names)


def literal(text: str) -> str:
    """Quote a string for the few places that take no parameter (replication commands, DDL)."""
    if "\\" in text:
        return " E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    return "'" + text.replace("'", "''") + "'"
