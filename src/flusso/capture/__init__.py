"""Capture: what changed, read from the write-ahead log through logical replication. Usable as a library.

The public face, in the order of use; all else in this package may change:

- `Dsn` names the server; `connect` opens an SQL connection, in autocommit.
- `inspect_prerequisites` says what the server lacks.
- `ensure_slot` makes the slot or finds it; `read_slot` looks at it; `measure_slot` says how far behind it
  is, in bytes and in seconds.
- `follow_slot` begins to read it, from its own position or a given one, and waits for a slot that is still
  active; its `EventStream` receives typed events, absorbs keepalives, and confirms.
- `await_release` waits until nobody reads a slot; then `advance_slot` moves it, never backwards, and
  `drop_slot` ends it.
- `to_unix_us` and `to_postgres_us` convert between the clocks, `lag_seconds` compares two times.

Errors are those of `flusso.errors`. docs/guides/capture.md shows it at work.
"""

from flusso.capture.events import Event, EventStream, follow_slot, lag_seconds
from flusso.capture.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Relation,
    Truncate,
    Type,
    Update,
)
from flusso.capture.prerequisites import inspect_prerequisites
from flusso.capture.protocol import to_postgres_us, to_unix_us
from flusso.capture.slot import SlotInfo, advance_slot, await_release, drop_slot, ensure_slot, read_slot
from flusso.capture.slot_facts import SlotMeasure, measure_slot
from flusso.postgres.connect import Dsn, connect

__all__ = [
    "Begin",
    "Commit",
    "Delete",
    "Dsn",
    "Event",
    "EventStream",
    "Insert",
    "LogicalMessage",
    "Message",
    "Origin",
    "Relation",
    "SlotInfo",
    "SlotMeasure",
    "Truncate",
    "Type",
    "Update",
    "advance_slot",
    "await_release",
    "connect",
    "drop_slot",
    "ensure_slot",
    "follow_slot",
    "inspect_prerequisites",
    "lag_seconds",
    "measure_slot",
    "read_slot",
    "to_postgres_us",
    "to_unix_us",
]
