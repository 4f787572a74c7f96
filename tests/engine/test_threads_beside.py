"""Threads beside the stream: whatever ends one of them ends the run, and is told. No Spark, no server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from flusso.engine import switch
from flusso.engine.debts import Payer
from flusso.engine.entry import Entry
from flusso.engine.ledger import Ledger
from flusso.engine.lookout import Lookout
from flusso.engine.policy import Patience
from flusso.engine.quarantine import Quarantine
from flusso.engine.room import Room
from flusso.engine.seed import Seeder
from flusso.engine.switch import Switcher
from flusso.errors import EngineError
from flusso.lsn import Version
from turns_here import TurnsHere
from waiting import wait_until


class Broken:
    """Fails at everything, in a way that nobody foresaw."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


BROKEN: Any = Broken()


def _turns() -> TurnsHere:
    nothing: Any = None
    return TurnsHere(nothing, Quarantine({}), 1.0, 1, lambda: Version(0), lambda _: None, Room(1))


def _seeder() -> Seeder:
    seeder = Seeder(_turns(), BROKEN, SimpleNamespace(to_seed=list))  # type: ignore[arg-type]
    seeder._jobs.append(BROKEN)
    threading.Thread(target=seeder._work).start()
    return seeder


def _payer() -> Payer:
    payer = Payer(_turns(), BROKEN, BROKEN)
    payer.start()
    return payer


def _switcher() -> Switcher:
    switcher = Switcher(BROKEN, threading.Lock(), lambda: Version(0), lambda _: None, Patience())
    switcher.start()
    return switcher


def _lookout() -> Lookout:
    lookout = Lookout(SimpleNamespace(look_s=0), BROKEN, BROKEN)  # type: ignore[arg-type]
    lookout.start()
    return lookout


@pytest.mark.parametrize("start", [_seeder, _payer, _switcher, _lookout])
def test_an_error_that_nobody_foresaw_is_the_failure_of_its_thread(start: Callable[[], Any]) -> None:
    beside = start()
    wait_until(lambda: beside.failure, what="the failure", timeout_s=10)
    assert isinstance(beside.failure, EngineError)
    assert isinstance(beside.failure.__cause__, KeyError)
    assert (beside.failure.exit_code, beside.failure.retryable) == (6, False)


class Looked(Ledger):
    """Counts who asks what readers might move to."""

    looks = 0

    def waiting(self) -> list[Entry]:
        Looked.looks += 1
        return []


def test_a_switcher_is_told_of_news_and_looks_no_more_when_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(switch, "_LOOK_S", 60.0)
    monkeypatch.setattr(Looked, "looks", 0)
    ledger = Looked([])
    switcher = Switcher(ledger, threading.Lock(), lambda: Version(0), lambda _: None)
    switcher.start()
    ledger.finish_seed([])
    wait_until(lambda: Looked.looks == 1, what="a look", timeout_s=10)
    switcher.close(10)
    assert not switcher._thread.is_alive()  # type: ignore[union-attr]
    assert Looked.looks == 1
