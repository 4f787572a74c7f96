"""How often documents are made searchable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from flusso.engine import refresh as module
from flusso.engine.refresh import Refresher
from flusso.engine.work import Destination
from flusso.errors import SinkUnavailable
from flusso.sinks.base import Capabilities, IndexTarget
from waiting import wait_until

TARGET = IndexTarget("books", "a" * 64, 1)
_refreshes: list[str] = []


@dataclass(frozen=True, slots=True)
class Counted:
    """A sink that only counts its refreshes, and fails at them if told so."""

    name: str = "counted"
    pause_s: float | None = 0.1
    fails: bool = False
    shape: dict[str, Any] = field(default_factory=dict, hash=False, compare=False)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(refresh_pause_s=self.pause_s)

    def open(self) -> Any:
        return self

    def refresh(self, target: IndexTarget) -> None:
        _refreshes.append(self.name)
        if self.fails:
            raise SinkUnavailable("away")

    def close(self) -> None:
        _refreshes.append("closed")


@pytest.fixture
def refresher() -> Iterator[Refresher]:
    _refreshes.clear()
    made = Refresher()
    yield made
    made.close()


def place(**how: Any) -> Destination:
    return Destination(Counted(**how), TARGET)  # type: ignore[arg-type]


def batch(refresher: Refresher, destination: Destination, *, is_behind: bool = False) -> bool:
    """Write one batch; give whether it refreshed itself."""
    chosen = refresher.choose([destination], is_behind=is_behind)
    refresher.note([destination], chosen, is_behind=is_behind)
    return bool(chosen)


def test_a_batch_after_a_quiet_time_is_refreshed_with_its_own_writes(refresher: Refresher) -> None:
    assert batch(refresher, place())
    assert _refreshes == []


def test_a_batch_right_after_another_is_refreshed_a_little_later(refresher: Refresher) -> None:
    assert [batch(refresher, place()) for _ in range(3)] == [True, False, False]
    wait_until(lambda: _refreshes, what="the refresh of both")
    refresher.close()
    assert _refreshes == ["counted", "closed"]


def test_at_the_end_what_is_due_is_refreshed_at_once(refresher: Refresher) -> None:
    slow = place(pause_s=3600.0)
    assert [batch(refresher, slow) for _ in range(2)] == [True, False]
    refresher.close()
    assert _refreshes == ["counted", "closed"]


def test_a_sink_that_becomes_searchable_by_itself_is_left_alone(refresher: Refresher) -> None:
    assert not any(batch(refresher, place(pause_s=None)) for _ in range(3))
    refresher.close()
    assert _refreshes == []


def test_without_a_pause_every_batch_is_refreshed_by_itself(refresher: Refresher) -> None:
    assert all(batch(refresher, place(pause_s=0.0)) for _ in range(5))


def test_a_stream_that_is_behind_is_refreshed_less_often(
    refresher: Refresher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BEHIND_S", 3600.0)
    free = place(pause_s=0.0)
    assert [batch(refresher, free, is_behind=True) for _ in range(2)] == [True, False]
    assert batch(refresher, free)


def test_a_refresh_that_fails_keeps_no_other_from_coming(refresher: Refresher) -> None:
    failing, good = place(name="failing", fails=True), place(name="good")
    for destination in (failing, good, failing, good):
        batch(refresher, destination)
    wait_until(lambda: set(_refreshes) == {"failing", "good"}, what="both refreshes")
