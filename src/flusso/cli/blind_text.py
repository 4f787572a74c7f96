"""Relations, blind or not, as `check`, `status` and `verify` print them; the words are the engine's."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from flusso.cli.report import printable
from flusso.engine.blind import Blind, Seen, sum_up


def print_blind(console: Console, blind: Sequence[Blind]) -> None:
    """Print once for each table what references keep exact, or what goes stale and the SQL that ends that."""
    for effect, cost in sum_up([one for one in blind if one.is_kept]):
        console.print(f"exact: {printable(effect)}" + (f"\n  {printable(cost)}" if cost else ""))
    for effect, remedy in sum_up([one for one in blind if not one.is_kept]):
        console.print(f"blind: {printable(effect)}\n  {printable(remedy)}")


def print_seen(console: Console, seen: Sequence[Seen]) -> None:
    """Print in one line for each index what the WAL keeps exact."""
    fields: dict[str, list[str]] = {}
    for one in seen:
        fields.setdefault(one.index, []).append(one.field)
    for index, found in fields.items():
        names = ", ".join(dict.fromkeys(found))
        console.print(f"exact: of {printable(index)} the WAL keeps {printable(names)}")


def relations_to_json(blind: Sequence[Blind], seen: Sequence[Seen]) -> list[dict[str, object]]:
    """Give for each relation what keeps it exact: the WAL, references, or nothing."""
    kept: list[tuple[Blind | Seen, str | None]] = []
    kept += [(one, "references" if one.is_kept else None) for one in blind if one.field]
    kept += [(one, "wal") for one in seen]
    return [
        {
            "index": one.index,
            "field": one.field,
            "table": str(one.table),
            "columns": list(one.columns),
            "kept_by": kept_by,
        }
        for one, kept_by in kept
    ]


def blind_to_json(blind: Sequence[Blind]) -> list[dict[str, object]]:
    """Give what scripts may rely on."""
    return [
        {
            "index": one.index,
            "field": one.field or None,
            "table": str(one.table),
            "columns": list(one.columns),
            "kept_by": "references" if one.is_kept else None,
            "references": round(one.rows, 1) if one.is_kept and one.rows else None,
            "effect": one.effect,
            "sql": list(one.sql),
            "reasons": list(one.reasons),
        }
        for one in blind
    ]
