"""A whole path as one SELECT over a range of the root: which of its rows do some values lead to.

Pure. Hops climb from a changed row to the root and are right for few documents. Where there are very many,
it is better to come from the other side: to go through the root table by blocks, as a seed does, and to keep
the rows that the values lead to. That takes one pass over the root, holds nothing, and goes on anywhere.

Values are cast to the type of the column that they were read from, so they are compared as the documents'
own SELECT compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flusso.builder.keys import columns_of, join_keys, match_keys, select_texts
from flusso.builder.level import PARTITION
from flusso.catalog import Table, TableKind
from flusso.postgres.identifiers import quote_table
from flusso.schema.model import Columns

TableColumns = tuple[Table, Columns]


def _same(condition: str) -> str:
    return condition


@dataclass(frozen=True, slots=True)
class Seen:
    """A row somewhere below the root, as it is seen from there: a condition of it makes one of a root row."""

    depth: int = 0
    around: Callable[[str], str] = _same

    @property
    def alias(self) -> str:
        """What the row is called in conditions."""
        return f"t{self.depth}"

    def by(self, columns: TableColumns, sources: TableColumns) -> str:
        """Give the condition that columns of the row are among the values in `$3` …, those of `sources`."""
        values = match_keys(self.alias, columns_of(*columns), columns_of(*sources), first=3)
        return self.around(values)

    def below(self, link: TableColumns, to: Columns) -> Seen:
        """Go on to the rows of another table whose link equals columns of this row."""
        seen = Seen(self.depth + 1)
        table, names = link
        linked = join_keys(seen.alias, columns_of(table, names), self.alias, to)
        start = f"exists (select from {quote_table(table.name)} as {seen.alias} where {linked} and "
        return Seen(seen.depth, lambda condition: self.around(f"{start}{condition})"))


ROOT = Seen()


def select_reached(root: TableColumns, condition: str) -> str:
    """Give the SELECT of the keys of root rows that lie between the ctids `$1` and `$2`, the second excluded,
    and meet a condition; in FROM of a partitioned root, `PARTITION` stands for the table of those rows."""
    table, key = root
    source = PARTITION if table.kind is TableKind.PARTITIONED else quote_table(table.name)
    alias = ROOT.alias
    return (
        f"select {select_texts(alias, columns_of(table, key))}\n"
        f"from {source} as {alias}\n"
        f"where {alias}.ctid >= $1::tid and {alias}.ctid < $2::tid and {condition}"
    )
