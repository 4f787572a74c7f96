"""What `make soak` tells and how it ends; what it plays has tests of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oracle import soak
from oracle.compare import Difference, Wrong
from oracle.processes import CRASH, between_crashes
from oracle.world import make_world


def _play_nothing(run: soak.Soak, seed: str) -> None:
    run.histories["stepping"] = run.histories.get("stepping", 0) + 1


def _differ(run: soak.Soak, seed: str) -> None:
    raise Wrong(make_world(seed), "the sink", [Difference("index0", "7", '{"a": 1}', None)])


@pytest.fixture(autouse=True)
def _one_tier(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FLUSSO_ORACLE_SEED", raising=False)
    monkeypatch.setenv("FLUSSO_SOAK_TIER", "stepping")
    monkeypatch.setattr(soak.tempfile, "mkdtemp", lambda prefix: str(tmp_path))


def test_it_goes_on_for_as_long_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLUSSO_SOAK_MINUTES", "0.002")
    monkeypatch.setattr(soak.Soak, "step", _play_nothing)
    assert soak.main() == 0
    assert re.search(r"clean for 0\.\d min: \d+ histories of stepping", capsys.readouterr().out)


def test_a_difference_ends_it_with_the_seed_the_schema_and_the_documents(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(soak.Soak, "step", _differ)
    assert soak.main() == 1
    told = capsys.readouterr().out
    (seed,) = re.findall(r"FLUSSO_SOAK_TIER=stepping FLUSSO_ORACLE_SEED=(\w+) make soak", told)
    assert make_world(seed).schemas["index0"] in told
    assert 'expected {"a": 1}\n  found    None' in told
    assert make_world(seed).ddl in (tmp_path / f"stepping-{seed}.txt").read_text()


def test_a_given_seed_is_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[str] = []

    def note(run: soak.Soak, seed: str) -> None:
        played.append(seed)
        _play_nothing(run, seed)

    monkeypatch.setenv("FLUSSO_ORACLE_SEED", "abc")
    monkeypatch.setattr(soak.Soak, "step", note)
    assert soak.main() == 0
    assert played == ["abc"]


def test_a_crash_of_postgres_begins_a_part_of_its_own() -> None:
    """After each part all is compared: what a kill lost must not be made good by a crash after it."""
    assert between_crashes(["kill -9", CRASH, "pause", CRASH]) == [["kill -9"], [CRASH, "pause"], [CRASH]]
    assert between_crashes([CRASH, "pause"]) == [[CRASH, "pause"]]
