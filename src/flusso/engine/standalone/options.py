"""The options of the source on its own, checked as soon as the stream is declared.

Spark hands them over as text under names whose case does not matter. An unknown name is an error, because a
typo would otherwise be a default. Those that say how to connect are libpq's own keywords; Spark keeps `url`
and `password` out of plans, logs and its pages by their names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import pq
from psycopg.conninfo import make_conninfo

from flusso.capture.postgres import SNAPSHOT_SUFFIXES, PostgresCapture
from flusso.catalog import TableName
from flusso.errors import ConfigError
from flusso.postgres.connect import Dsn

OPTIONS: Mapping[str, str] = {
    "url": "",
    "tables": "",
    "slot": "",
    "publication": "",
    "managePublication": "true",
    "snapshot": "none",
    "snapshotPartitionBytes": "67108864",
    "typed": "false",
    "maxChangesPerTrigger": "100000",
    "maxBytesPerTrigger": "33554432",
    "advanceSeconds": "10",
}
"""Each name with its default, beside libpq's keywords."""

_RENAMED = {"database": "dbname"}
_NOT_OURS = {"replication"}
_SLOT = re.compile(r"[a-z0-9_]+")
_LONGEST_NAME = 63
_PIECE_CHANGES = 10_000
_PIECE_BYTES = 4 << 20
# A part is quoted, or has none of the signs that would need it.
_NAME = re.compile(r'\s*("(?:[^"]|"")+"|[^".,]+)\s*')


@dataclass(frozen=True, slots=True)
class RowOptions:
    """What a stream was asked to be."""

    capture: PostgresCapture
    takes_snapshot: bool
    part_bytes: int
    is_typed: bool
    max_changes: int
    max_bytes: int
    advance_s: float


def parse_options(given: Mapping[str, str]) -> RowOptions:
    """Read the options; raise `ConfigError` for the first that is wrong."""
    known = {name.lower(): name for name in OPTIONS}
    connection = _connection_keywords()
    for name in given:
        if name.lower() not in known and name.lower() not in connection:
            near = difflib.get_close_matches(name.lower(), [*known, *connection], 1)
            meant = known.get(near[0], near[0]) if near else None
            raise ConfigError(
                f'unknown option "{name}"',
                hint=f'did you mean "{meant}"?' if meant else f"the options are {', '.join(OPTIONS)}",
            )
    values = {name: given.get(name.lower(), default) for name, default in OPTIONS.items()}
    tables = parse_tables(values["tables"])
    is_typed = _boolean("typed", values["typed"])
    if is_typed and len(tables) != 1:
        raise ConfigError(
            "only one table can be typed", hint="name one in tables, or take its rows as JSON: typed = false"
        )
    takes_snapshot = _choice("snapshot", values["snapshot"], ("none", "initial")) == "initial"
    slot = _slot(values["slot"], max(map(len, SNAPSHOT_SUFFIXES)) if takes_snapshot else 0)
    max_changes = _whole("maxChangesPerTrigger", values["maxChangesPerTrigger"])
    max_bytes = _whole("maxBytesPerTrigger", values["maxBytesPerTrigger"])
    capture = PostgresCapture(
        _dsn(values["url"], {name: given[name] for name in given if name.lower() in connection}),
        slot,
        values["publication"] or slot,
        tables,
        _boolean("managePublication", values["managePublication"]),
        min(_PIECE_CHANGES, max_changes),
        min(_PIECE_BYTES, max_bytes),
    )
    return RowOptions(
        capture,
        takes_snapshot,
        _whole("snapshotPartitionBytes", values["snapshotPartitionBytes"]),
        is_typed,
        max_changes,
        max_bytes,
        _whole("advanceSeconds", values["advanceSeconds"]),
    )


def parse_tables(text: str) -> tuple[TableName, ...]:
    """Read `orders, shop.items, "My Schema"."A.B"`: the schema is public if it is not named."""
    if not text.strip():
        raise ConfigError('option "tables" is missing', hint='for example "public.orders, public.users"')
    tables: list[TableName] = []
    at = 0
    while at < len(text):
        parts: list[str] = []
        while True:
            found = _NAME.match(text, at)
            name = "" if found is None else _unquoted(found[1].strip())
            if found is None or not name:
                raise ConfigError(
                    f'option "tables" names no table at character {at + 1}',
                    hint='write schema.table, and names with a dot, comma or quote as "na.me"',
                )
            parts.append(name)
            at = found.end()
            if text[at : at + 1] != ".":
                break
            at += 1
        if len(parts) > 2 or text[at : at + 1] not in ("", ","):
            raise ConfigError(
                f'option "tables" has no schema.table before character {at + 1}',
                hint='write schema.table, and names with a dot, comma or quote as "na.me"',
            )
        tables.append(TableName(*parts) if len(parts) == 2 else TableName("public", parts[0]))
        at += 1
    return tuple(dict.fromkeys(tables))


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _connection_keywords() -> set[str]:
    return {option.keyword.decode() for option in pq.Conninfo.get_defaults()} - _NOT_OURS | set(_RENAMED)


def _dsn(url: str, parts: Mapping[str, str]) -> Dsn:
    """Put the keywords over the URL, which is checked first: its flaws are told without its password."""
    whole = Dsn(url).text
    return Dsn(
        make_conninfo(whole, **{_RENAMED.get(name.lower(), name.lower()): parts[name] for name in parts})
    )


def _slot(name: str, reserved: int) -> str:
    if not name:
        raise ConfigError(
            'option "slot" is missing', hint="a slot of its own for each stream, e.g. spark_orders"
        )
    if not _SLOT.fullmatch(name) or len(name) > _LONGEST_NAME - reserved:
        raise ConfigError(
            f'"{name}" is no name for a slot',
            hint=f"at most {_LONGEST_NAME - reserved} of lower-case letters, digits and underscores",
        )
    return name


def _boolean(name: str, text: str) -> bool:
    return _choice(name, text, ("true", "false")) == "true"


def _choice(name: str, text: str, allowed: tuple[str, ...]) -> str:
    if text.strip().lower() not in allowed:
        raise ConfigError(f'option "{name}" is {" or ".join(allowed)}, not "{text}"')
    return text.strip().lower()


def _whole(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise ConfigError(f'option "{name}" is a whole number above 0, not "{text}"')
    return value
