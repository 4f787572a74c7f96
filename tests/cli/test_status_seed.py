"""What `status` says of an index that is being filled."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from test_status_debts import spec_with

from flusso.cli.status import IndexFacts, SlotFacts, _print, gather_indexes
from flusso.engine.spec import PipelineSpec
from flusso.seeding import Seeding


def _spec_filled(folder: Path, percent: int, *, is_all_due: bool = False) -> PipelineSpec:
    """An index of which so much is written."""
    spec = spec_with(folder)
    sink = spec.indexes[0].sinks[0].open()
    (state,) = sink.load_states().all
    seeding = Seeding(done=percent, blocks=100, documents=120_000, bytes=90_000_000, seconds=30.0)
    sink.save_state(replace(state, is_seeded=False, seeding=seeding, is_all_due=is_all_due))
    sink.close()
    return spec


def _printed(facts: IndexFacts, capsys: pytest.CaptureFixture[str]) -> str:
    _print(SlotFacts("s", exists=False), [facts])
    return " ".join(capsys.readouterr().out.split())


def test_a_seed_shows_how_far_it_is_how_fast_it_goes_and_how_long_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (facts,) = gather_indexes(_spec_filled(tmp_path, 60))
    assert facts.state == "seeding"
    assert {
        "stage": "reading", "percent": 60.0, "documents": 120_000, "documents_per_s": 4000.0,
        "bytes_per_s": 3_000_000.0, "left_s": 20.0,
    }.items() <= asdict(facts)["seed"].items()  # fmt: skip
    assert "is being filled: 60% 120,000 docs 4,000/s 3.0 MB/s 20s left" in _printed(facts, capsys)


@pytest.mark.parametrize(
    ("is_all_due", "stage", "doing"),
    [
        (False, "looking up", "looking up what changed meanwhile"),
        (True, "building again", "more changed meanwhile than is remembered, all of it is built once more"),
    ],
)
def test_when_all_blocks_are_written_it_says_what_is_still_done_and_not_how_long_that_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_all_due: bool, stage: str, doing: str
) -> None:
    (facts,) = gather_indexes(_spec_filled(tmp_path, 100, is_all_due=is_all_due))
    assert facts.seed is not None
    assert (facts.seed.stage, facts.seed.documents_per_s, facts.seed.left_s) == (stage, None, None)
    printed = _printed(facts, capsys)
    assert f"is being filled: 100% 120,000 docs {doing}" in printed
    assert "left" not in printed


@pytest.mark.parametrize("percent", [60, 100])
def test_a_seed_that_nobody_goes_on_with_has_neither_a_rate_nor_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], percent: int
) -> None:
    (facts,) = gather_indexes(_spec_filled(tmp_path, percent), is_followed=False)
    assert facts.seed is not None
    assert (facts.seed.stage, facts.seed.percent) == ("stopped", percent)
    assert (facts.seed.documents_per_s, facts.seed.bytes_per_s, facts.seed.left_s) == (None, None, None)
    said = f"is filled in part: {percent}% 120,000 docs nobody goes on with it, flusso run does"
    assert said in _printed(facts, capsys)


def test_an_index_that_is_seeded_shows_nothing_of_it(tmp_path: Path) -> None:
    (facts,) = gather_indexes(spec_with(tmp_path))
    assert facts.seed is None
