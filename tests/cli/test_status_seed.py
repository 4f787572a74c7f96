"""What `status` says of an index that is being filled."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from test_status_debts import spec_with

from flusso.cli.status import SlotFacts, _print, gather_indexes
from flusso.seeding import Seeding


def test_a_seed_shows_how_far_it_is_how_fast_it_goes_and_how_long_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = spec_with(tmp_path)
    sink = spec.indexes[0].sinks[0].open()
    (state,) = sink.load_states().all
    seeding = Seeding(done=60, blocks=100, documents=120_000, bytes=90_000_000, seconds=30.0)
    sink.save_state(replace(state, is_seeded=False, seeding=seeding))
    sink.close()
    (facts,) = gather_indexes(spec)
    assert facts.state == "seeding"
    assert {
        "percent": 60.0, "documents": 120_000, "documents_per_s": 4000.0, "bytes_per_s": 3_000_000.0,
        "left_s": 20.0,
    }.items() <= asdict(facts)["seed"].items()  # fmt: skip
    _print(SlotFacts("s", exists=False), [facts])
    printed = " ".join(capsys.readouterr().out.split())
    assert "is being filled: 60% 120,000 docs 4,000/s 3.0 MB/s 20s left" in printed


def test_an_index_that_is_seeded_shows_nothing_of_it(tmp_path: Path) -> None:
    (facts,) = gather_indexes(spec_with(tmp_path))
    assert facts.seed is None
