"""What the database says of itself: tables, columns, keys, replica identity.

Read by `postgres/introspect.py`, used by whoever checks or compiles a schema. Plain facts, no policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table by schema and name, unquoted as the catalog has them."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


class TableKind(StrEnum):
    """`pg_class.relkind`."""

    TABLE = "r"
    PARTITIONED = "p"
    VIEW = "v"
    MATERIALIZED_VIEW = "m"
    FOREIGN = "f"


class Persistence(StrEnum):
    """`pg_class.relpersistence`."""

    PERMANENT = "p"
    UNLOGGED = "u"
    TEMPORARY = "t"


class IdentityKind(StrEnum):
    """`pg_class.relreplident`."""

    DEFAULT = "d"
    FULL = "f"
    INDEX = "i"
    NOTHING = "n"


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    `type` is what an operand is cast to (`numeric`, `shop."Mood"`, `text[]`): domains resolved, without
    the length or precision that would cut the operand; `base` is the bare name of that type (`numeric`,
    `text`, `timestamptz`), for an array that of its element.
    """

    name: str
    type: str
    base: str
    is_array: bool = False
    is_enum: bool = False
    not_null: bool = False
    is_generated: bool = False
    operators: str = ""
    """The schema, quoted, that the operators of the type lie in; empty for Postgres's own."""
    is_short: bool = False
    """Of a numeric: declared so narrow that each of its numbers is one that an index takes."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A table that holds rows of a partitioned one, at whatever level below it."""

    name: TableName
    kind: TableKind
    persistence: Persistence
    identity_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One table, with the columns that an UPDATE or DELETE carries of the old row."""

    name: TableName
    oid: int
    kind: TableKind
    columns: Mapping[str, Column]
    primary_key: tuple[str, ...]
    identity: IdentityKind
    identity_columns: tuple[str, ...]
    """Columns of the old row in the WAL: the key, the chosen index, or all of them; of a partitioned table
    those that every partition gives."""
    persistence: Persistence = Persistence.PERMANENT
    partitions: tuple[Partition, ...] = ()
    has_children: bool = False
    """Whether other tables inherit from it, otherwise than as partitions."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables asked for that exist."""

    tables: Mapping[TableName, Table] = field(default_factory=dict)

    def get(self, name: TableName) -> Table | None:
        """Find a table, or None when the database does not have it."""
        return self.tables.get(name)
