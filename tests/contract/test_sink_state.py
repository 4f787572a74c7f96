"""State and quarantine: what every sink that keeps them promises (`sinks/base.py`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flusso.document import Refusal
from flusso.errors import IndexTaken
from flusso.sinks.base import IndexState, Request, Sink, SinkSpec, States


def test_a_new_sink_has_no_states(spec: SinkSpec) -> None:
    opened = spec.open()
    assert opened.load_states() == States()
    opened.close()


def test_a_new_sink_has_nothing_to_release(spec: SinkSpec) -> None:
    opened = spec.open()
    assert opened.release("books", ["1"], 5) == 0
    opened.close()


def test_state_survives_reopening(sink: Sink, spec: SinkSpec) -> None:
    state = IndexState("books", "a" * 64, 1, True, "slot", "7412", 1 << 60, 1 << 61)
    sink.save_state(replace(state, witness=1))
    sink.save_state(state)
    sink.close()
    again = spec.open()
    assert again.load_states() == States((state,))
    again.close()


def test_each_generation_has_a_state_of_its_own(sink: Sink) -> None:
    old = IndexState("books", "a" * 64, 1, is_seeded=True, serves=True)
    new = IndexState("books", "b" * 64, 2)
    other = IndexState("books2", "a" * 64, 1)
    for state in (new, other, old):
        sink.save_state(state)
    states = sink.load_states()
    assert states.of("books") == (old, new)
    assert (states.serving("books"), states.newest("books"), states.shown("books2")) == (old, new, other)


def test_an_earlier_start_does_not_put_back_what_it_knew(sink: Sink) -> None:
    state = IndexState("books", "a" * 64, 1, term=1 << 60)
    later = replace(state, term=state.term + 1, witness=7)
    for each in (state, later, later):
        sink.save_state(each)
    with pytest.raises(IndexTaken):
        sink.save_state(replace(state, witness=9))
    assert sink.load_states() == States((later,))


def test_a_request_is_there_until_it_is_answered(sink: Sink, spec: SinkSpec) -> None:
    state = IndexState("books", "a" * 64, 1)
    sink.save_state(state)
    sink.ask("books", Request.ROLLBACK, 12)
    assert sink.load_states() == States((state,), {"books": Request.ROLLBACK}, {"books": 12})
    sink.ask("books", Request.REINDEX)
    again = spec.open()
    assert again.load_states() == States((state,), {"books": Request.REINDEX})
    for _ in range(2):
        again.answer("books")
    assert again.load_states() == States((state,))
    again.close()


REFUSAL = Refusal("books", "1", 5, "kept", "first", at=1700000000.25)


def test_quarantine_keeps_one_entry_for_each_id_with_the_latest_reason_and_all_attempts(sink: Sink) -> None:
    latest = replace(REFUSAL, version=6, reason="latest", at=1700000001.5)
    sink.quarantine([REFUSAL, replace(REFUSAL, id="2"), replace(REFUSAL, index="other")])
    sink.quarantine([latest])
    assert list(sink.quarantined("books")) == [replace(latest, attempts=2), replace(REFUSAL, id="2")]


def test_a_document_leaves_the_quarantine_unless_it_was_refused_at_a_newer_version(sink: Sink) -> None:
    newer = replace(REFUSAL, id="3", version=9)
    sink.quarantine([REFUSAL, replace(REFUSAL, id="2"), newer, replace(REFUSAL, index="other")])
    assert sink.release("books", ["1", "3", "absent"], 6) == 1
    assert [each.id for each in sink.quarantined("books")] == ["2", "3"]
    assert len(sink.quarantined("other")) == 1


def test_nothing_leaves_a_quarantine_that_was_never_made(spec: SinkSpec) -> None:
    opened = spec.open()
    assert (opened.release("books", ["1"], 6), list(opened.quarantined("books"))) == (0, [])
    opened.close()


def test_many_documents_enter_and_leave_the_quarantine_at_once(sink: Sink) -> None:
    sink.quarantine([replace(REFUSAL, id=str(n)) for n in range(2500)])
    assert len(sink.quarantined("books")) == 2500
    assert sink.release("books", [str(n) for n in range(2500)], 5) == 2500
    assert list(sink.quarantined("books")) == []
