"""May this role read what the documents are made of. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flusso.builder.check.facts import Facts
from flusso.builder.check.spot import Spot
from flusso.catalog import TableName
from flusso.diagnostic import Code, Diagnostic
from flusso.postgres.identifiers import quote, quote_table


def find_barred(spot: Spot, table: TableName, facts: Facts, key: str = "table") -> Iterator[Diagnostic]:
    """Say what keeps the role from reading a table: no privilege, or rows that it would not see."""
    known = facts.tables[table]
    role = quote(facts.role)
    if not known.may_use_schema:
        yield spot.says(
            Code.MISSING_PRIVILEGE,
            f'role "{facts.role}" may not use schema "{table.schema}"',
            key=key,
            hint=f"grant usage on schema {quote(table.schema)} to {role};",
        )
    if not known.may_read:
        yield spot.says(
            Code.MISSING_PRIVILEGE,
            f'role "{facts.role}" may not read {table}',
            key=key,
            hint=f"grant select on {quote_table(table)} to {role};",
        )
    elif known.is_row_secured:
        yield spot.says(
            Code.ROW_SECURITY,
            f'row-level security hides rows of {table} from role "{facts.role}": '
            "a row that is not seen would be removed from the index",
            key=key,
            hint=f"alter role {role} bypassrls;",
        )
