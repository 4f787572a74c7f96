"""Blind relations as `status` and `verify` print them; the words are the engine's."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from flusso.cli.report import printable
from flusso.engine.blind import Blind, sum_up


def print_blind(console: Console, blind: Sequence[Blind]) -> None:
    """Print once for each table what goes stale, and under it the SQL that ends that."""
    for effect, remedy in sum_up(blind):
        console.print(f"blind: {printable(effect)}\n  {printable(remedy)}")


def blind_to_json(blind: Sequence[Blind]) -> list[dict[str, object]]:
    """Give what scripts may rely on."""
    return [
        {
            "index": one.index,
            "field": one.field or None,
            "table": str(one.table),
            "columns": list(one.columns),
            "effect": one.effect,
            "sql": list(one.sql),
            "reasons": list(one.reasons),
        }
        for one in blind
    ]
