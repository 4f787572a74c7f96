"""Whole rows of the watched tables, nothing folded: the other way to make pieces of a transaction.

For the stream on its own, where every change counts and every column is wanted. It takes the steps of
`transactions` (the same messages, the same tuples, the same positions and ordinals) and keeps what the thin
way leaves out: all columns as the last relation message named them, which tuple the old row came as, when
and in which transaction. What it means for a reader is decided later, on executors. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from flusso.capture.images import OLD, Plan, read_images
from flusso.capture.pgoutput import Relation
from flusso.capture.transactions import Assembler, Piece
from flusso.catalog import IdentityKind, TableName
from flusso.change import ALL, Operation, Values, WatchedTable
from flusso.lsn import Lsn

READ = "r"
"""The operation of a row that comes from a snapshot, beside those of `Operation`."""

_ROW_BYTES = 400
_VALUE_BYTES = 56
"""What a row and a value cost in memory beside the text, so that byte limits hold for the process."""


@dataclass(frozen=True, slots=True)
class ShapeColumn:
    """A column as it is sent."""

    name: str
    type_oid: int
    is_identity: bool
    """Whether the replica identity holds it, so that it is known of an old row."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as its rows are sent from some message on."""

    table: TableName
    columns: tuple[ShapeColumn, ...]
    key: tuple[str, ...]
    """Its primary key, or else its replica identity."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """One change of one row, or a truncate, with everything the WAL says of it.

    `new` may hold `UNCHANGED`. In an old row that `is_whole_old` is not set for, only identity columns are
    known. A row of a snapshot has the position where the stream goes on, and neither transaction nor time.
    """

    shape: Shape
    operation: str
    is_whole_old: bool
    old: Values | None
    new: Values | None
    commit_lsn: Lsn
    ordinal: int
    commit_time_us: int | None = None
    """In Postgres's microseconds."""
    xid: int | None = None


FullRow: TypeAlias = tuple[Shape, str, bool, Values | None, Values | None, int, int, int | None, int | None]
"""The fields of a `RowChange`, before it becomes one."""


@dataclass(frozen=True, slots=True)
class _FullPlan(Plan):
    shape: Shape


class RowAssembler(Assembler):
    """Turns payloads into pieces of full rows. Of a watched table, `columns` is its primary key."""

    def __init__(
        self, tables: Sequence[WatchedTable], *, piece_changes: int, piece_bytes: int, start: Lsn
    ) -> None:
        super().__init__(
            tables, piece_changes=piece_changes, piece_bytes=piece_bytes, fold=False, start=start
        )

    def _plan(self, relation: Relation) -> Plan | None:
        found = self._find(relation)
        if found is None:
            return None
        number, table = found
        width = len(relation.columns)
        return _FullPlan(
            number,
            table.name,
            width,
            width,
            tuple(range(width)),
            tuple(place if column.is_key else -1 for place, column in enumerate(relation.columns)),
            tuple(range(width)),
            False,
            (),
            shape_of(relation, table),
        )

    def _read_images(
        self, kind: int, mark: int, data: bytes, at: int, plan: Plan
    ) -> tuple[Values | None, Values | None, int, int]:
        return (*read_images(kind, mark, data, at, plan)[:3], ALL)

    def _add(
        self,
        plan: Plan,
        operation: str,
        mark: int,
        old: Values | None,
        new: Values | None,
        size: int,
        changed: int,
    ) -> Sequence[Piece]:
        assert isinstance(plan, _FullPlan)
        pieces: Sequence[Piece] = ()
        size += _ROW_BYTES + plan.width * _VALUE_BYTES
        if self._rows and (self._bytes + size > self._piece_bytes or len(self._rows) >= self._piece_changes):
            pieces = self._cut()
        self._keep(plan.shape, operation, mark == OLD, old, new)
        self._bytes += size
        return pieces

    def _keep_truncate(self, plan: Plan) -> None:
        assert isinstance(plan, _FullPlan)
        self._keep(plan.shape, Operation.TRUNCATE.value, False, None, None)
        self._bytes += _ROW_BYTES

    def _keep(
        self, shape: Shape, operation: str, is_whole: bool, old: Values | None, new: Values | None
    ) -> None:
        row: FullRow = (
            shape, operation, is_whole, old, new, self._final, self._ordinal, self._time_us, self._xid
        )  # fmt: skip
        self._rows.append(row)


def shape_of(relation: Relation, table: WatchedTable) -> Shape:
    """Describe a table as the relation message does, under the name that it is watched by."""
    columns = tuple(ShapeColumn(column.name, column.type_oid, column.is_key) for column in relation.columns)
    identity = tuple(column.name for column in columns if column.is_identity)
    names = {column.name for column in columns}
    # A full identity holds every column, which is no key; the catalog's may have been renamed since.
    is_known = bool(table.columns) and names.issuperset(table.columns)
    is_full = relation.identity is IdentityKind.FULL
    return Shape(table.name, columns, table.columns if is_full and is_known else identity)
