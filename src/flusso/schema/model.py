"""What a schema file means: the tree of fields under a root table.

`parse` builds it from YAML, `builder` compiles it to SQL, `mapping` to an index mapping, `digest` to a
fingerprint. Everything is resolved as far as the file alone allows; an empty `primary_key` means "the
catalog's".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from flusso.catalog import TableName

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
Columns = tuple[str, ...]

OMIT_DEFAULT = MappingProxyType({"omit_default": True})
"""Marks an attribute that came after digests were first taken: at its default it leaves no trace in one."""


class ScalarKind(StrEnum):
    """The type tag of a field that one column fills."""

    TEXT = "text"
    IDENTIFIER = "identifier"
    KEYWORD = "keyword"
    ENUM = "enum"
    UUID = "uuid"
    BOOLEAN = "boolean"
    SHORT = "short"
    INTEGER = "integer"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BINARY = "binary"
    JSON = "json"


TEXT_KINDS = frozenset({ScalarKind.TEXT, ScalarKind.IDENTIFIER, ScalarKind.KEYWORD, ScalarKind.ENUM})
WHOLE_KINDS = frozenset({ScalarKind.SHORT, ScalarKind.INTEGER, ScalarKind.LONG})
NUMBER_KINDS = WHOLE_KINDS | {ScalarKind.FLOAT, ScalarKind.DOUBLE, ScalarKind.DECIMAL}


class Transform(StrEnum):
    """What is done to a text before it is indexed, in the order written."""

    LOWERCASE = "lowercase"
    TRIM = "trim"


class JoinKind(StrEnum):
    """How another table hangs on its parent."""

    BELONGS_TO = "belongs_to"
    HAS_ONE = "has_one"
    HAS_MANY = "has_many"
    MANY_TO_MANY = "many_to_many"

    @property
    def is_to_many(self) -> bool:
        """Whether the field is an array."""
        return self in (JoinKind.HAS_MANY, JoinKind.MANY_TO_MANY)


class AggregateKind(StrEnum):
    """What a set of related rows is reduced to."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    IDS = "ids"


class FilterOp(StrEnum):
    """How a column is compared."""

    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"
    EQ = "eq"
    NEQ = "neq"
    LT = "lt"
    LTE = "lte"
    GT = "gt"
    GTE = "gte"
    LIKE = "like"
    ILIKE = "ilike"
    IN = "in"
    NOT_IN = "not_in"
    BETWEEN = "between"


class Direction(StrEnum):
    """Which end of an order comes first."""

    ASC = "asc"
    DESC = "desc"


@dataclass(frozen=True, slots=True)
class RawFilter:
    """An SQL condition over the table's own columns."""

    sql: str


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """A column compared with operands, which are bound, never pasted into the statement."""

    column: str
    op: FilterOp
    values: tuple[str | int | float | bool, ...] = ()
    """None for a null check, one for a comparison, two for `between`, any number for `in`."""


Filter: TypeAlias = RawFilter | ColumnFilter


@dataclass(frozen=True, slots=True)
class OrderBy:
    """One column of an order; nulls come last either way."""

    column: str
    direction: Direction = Direction.ASC


@dataclass(frozen=True, slots=True)
class SoftDelete:
    """A row counts as deleted when `column` is true (a boolean) or not null (anything else) and all of
    `when` hold."""

    column: str
    when: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class Through:
    """A junction table: `left_key` points at the parent, `right_key` at the related table."""

    table: TableName
    left_key: Columns
    right_key: Columns
    filters: tuple[Filter, ...] = field(default=(), metadata=OMIT_DEFAULT)
    """Which of its rows count."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A field filled by one column."""

    name: str
    kind: ScalarKind
    column: str
    is_required: bool = False
    default: Json = None
    transforms: tuple[Transform, ...] = ()
    variants: tuple[str, ...] = ()
    """Of an enum: its values in order."""
    options: Mapping[str, Json] = field(default_factory=dict)
    """Merged into the mapping."""


@dataclass(frozen=True, slots=True)
class Custom:
    """A field filled by one column whose type in the index is given by name."""

    name: str
    column: str
    postgres: tuple[str, ...]
    """The types that the column may have."""
    opensearch: str
    """The type in the mapping."""
    is_required: bool = False
    default: Json = None
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Geo:
    """A point, of two columns (`lat`, `lon`) or of one (`column`)."""

    name: str
    column: str = ""
    lat: str = ""
    lon: str = ""
    is_required: bool = False
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Map:
    """An object whose keys are data and whose values are all of one kind."""

    name: str
    column: str
    values: ScalarKind
    is_required: bool = False
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value in every document."""

    name: str
    value: Json
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """An object of fields of the same row, without a join."""

    name: str
    fields: tuple[Field, ...]
    options: Mapping[str, Json] = field(default_factory=dict, metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True)
class Join:
    """Rows of another table inside the document."""

    name: str
    kind: JoinKind
    table: TableName
    primary_key: Columns
    """What `column` (belongs_to) or `right_key` (many_to_many) refers to, and the default order."""
    fields: tuple[Field, ...]
    column: Columns = ()
    """belongs_to only: the parent row's foreign key."""
    foreign_key: Columns = ()
    """has_one and has_many only: the related row's reference to the parent's primary key."""
    through: Through | None = None
    """many_to_many only."""
    filters: tuple[Filter, ...] = ()
    order_by: tuple[OrderBy, ...] = ()
    limit: int | None = None
    is_required: bool = False
    soft_delete: SoftDelete | None = None
    options: Mapping[str, Json] = field(default_factory=dict, metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Related rows reduced to one value; reached by `foreign_key` or `through`."""

    name: str
    kind: AggregateKind
    table: TableName
    primary_key: Columns = ()
    foreign_key: Columns = ()
    through: Through | None = None
    column: str | None = None
    value_type: ScalarKind | None = None
    filters: tuple[Filter, ...] = ()
    soft_delete: SoftDelete | None = None
    element_type: ScalarKind | None = field(default=None, metadata=OMIT_DEFAULT)
    """Of ids: what the related table's keys are."""
    is_distinct: bool = field(default=False, metadata=OMIT_DEFAULT)
    """Through a junction: each related row once, however many junction rows lead to it."""
    options: Mapping[str, Json] = field(default_factory=dict, metadata=OMIT_DEFAULT)


Leaf: TypeAlias = Scalar | Custom | Geo | Map | Constant
Field: TypeAlias = Leaf | Group | Join | Aggregate


@dataclass(frozen=True, slots=True)
class IndexSchema:
    """One schema file: the root table and what is made of each of its rows."""

    table: TableName
    fields: tuple[Field, ...]
    primary_key: Columns = ()
    filters: tuple[Filter, ...] = ()
    soft_delete: SoftDelete | None = None


def tables_of(schema: IndexSchema) -> frozenset[TableName]:
    """Name every table that the schema reads, junctions included."""
    found = {schema.table}
    for item in walk(schema.fields):
        if isinstance(item, Join | Aggregate):
            found.add(item.table)
            if item.through is not None:
                found.add(item.through.table)
    return frozenset(found)


def walk(fields: tuple[Field, ...]) -> Iterator[Field]:
    """Go through all fields, depth first, parents before children."""
    for item in fields:
        yield item
        if isinstance(item, Group | Join):
            yield from walk(item.fields)
