"""The columns of a table that the stream sends, as the catalog knows them now.

For whoever needs them before the first change comes: a snapshot, which has to look like the stream, and the
typed columns of the stream on its own. A publication may leave columns out; before 15 it cannot, and before
18 it never sends generated ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from flusso.catalog import TableName
from flusso.postgres.connect import Connection, translated
from flusso.postgres.identifiers import quote_table

# A domain leads to its base; the modifier is the first one on the way that is set.
_COLUMNS = """
with recursive published as (
  select array(select jsonb_array_elements_text(to_jsonb(shown) -> 'attnames')) as names
  from pg_publication_tables as shown
  where pubname = %(publication)s and schemaname = %(schema)s and tablename = %(table)s
), chain as (
  select a.attnum, a.attname, a.atttypid as sent_oid, a.atttypid as oid, a.atttypmod as modifier
  from pg_attribute as a
  where a.attrelid = to_regclass(%(relation)s) and a.attnum > 0 and not a.attisdropped
    and coalesce(
      (select case when names <> '{}' then a.attname::text = any(names) end from published),
      a.attgenerated = '')
  union all
  select c.attnum, c.attname, c.sent_oid, t.typbasetype,
    case when c.modifier = -1 then t.typtypmod else c.modifier end
  from chain as c join pg_type as t on t.oid = c.oid
  where t.typtype = 'd'
)
select c.attname::text, c.sent_oid, coalesce(element.typname, t.typname)::text, element.oid is not null,
  c.modifier
from chain as c
join pg_type as t on t.oid = c.oid
left join pg_type as element on t.typcategory = 'A' and element.oid = t.typelem
where t.typtype <> 'd'
order by c.attnum
"""


@dataclass(frozen=True, slots=True)
class SentColumn:
    """A column: the type it is declared with, and what that comes down to without domains."""

    name: str
    type_oid: int
    base: str
    """Of an array, its element's."""
    is_array: bool
    modifier: int

    @property
    def digits(self) -> tuple[int, int] | None:
        """Precision and scale of a numeric that has them."""
        if self.base != "numeric" or self.modifier < 4:
            return None
        packed = self.modifier - 4
        # The scale has eleven bits and a sign.
        return packed >> 16, ((packed & 0x7FF) ^ 0x400) - 0x400


def read_columns(conn: Connection, publication: str, table: TableName) -> tuple[SentColumn, ...]:
    """Read the columns of a table that the publication sends, all that it would if it is not there yet."""
    values = {
        "publication": publication,
        "schema": table.schema,
        "table": table.name,
        "relation": quote_table(table),
    }
    with translated(f"cannot read the columns of {table}"):
        return tuple(SentColumn(*row) for row in conn.execute(_COLUMNS, values))
