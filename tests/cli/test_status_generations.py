"""What `status` says of an index that has several generations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_status_debts import spec_with

from flusso.cli.status import gather_indexes
from flusso.engine.spec import PipelineSpec
from flusso.sinks.base import IndexState
from market import market_schema


def told(spec: PipelineSpec) -> list[tuple[int | None, str, bool | None]]:
    return [(facts.generation, facts.state, facts.is_exact) for facts in gather_indexes(spec)]


def saved(folder: Path, *changes: dict[str, object]) -> PipelineSpec:
    """Generations from 1 on, like the seeded one of a declared schema but for these changes."""
    spec = spec_with(folder)
    sink = spec.indexes[0].sinks[0].open()
    (state,) = sink.load_states().all
    for number, each in enumerate(changes, 1):
        made: IndexState = replace(state, generation=number, **each)  # type: ignore[arg-type]
        sink.ensure(made.target, market_schema())
        sink.save_state(made)
    sink.close()
    return spec


SERVING, KEPT = {"serves": True}, {"is_kept": True}
FILLING, OLD = {"is_seeded": False}, {"digest": "old"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([SERVING, FILLING], [(1, "following", True), (2, "seeding", False)]),
        ([SERVING, {}], [(1, "following", True), (2, "waiting", True)]),
        ([SERVING | OLD, FILLING], [(1, "outdated", False), (2, "seeding", False)]),
        ([SERVING | OLD, KEPT], [(1, "rolled back", True)]),
        ([KEPT, SERVING], [(2, "following", True)]),
        ([SERVING | {"stale": "it lost its slot"}, FILLING], [(1, "frozen", False), (2, "seeding", False)]),
        ([{}], [(1, "waiting", True)]),
    ],
    ids=["filled", "whole", "another schema", "rolled back", "kept", "frozen", "first"],
)
def test_what_readers_see_is_told_and_what_is_to_take_its_place(
    tmp_path: Path, changes: list[dict[str, object]], expected: list[tuple[int, str, bool]]
) -> None:
    assert told(saved(tmp_path, *changes)) == expected
