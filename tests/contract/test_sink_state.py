"""State and quarantine: what every sink that keeps them promises (`sinks/base.py`)."""

from __future__ import annotations

from dataclasses import replace

from flusso.document import Refusal
from flusso.sinks.base import IndexState, Sink, SinkSpec, States


def test_a_new_sink_has_no_states(spec: SinkSpec) -> None:
    opened = spec.open()
    assert opened.load_states() == States()
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


def test_quarantine_keeps_one_entry_for_each_id_with_the_latest_reason(sink: Sink) -> None:
    first = Refusal("books", "1", 5, "kept", "first")
    latest = replace(first, version=6, reason="latest")
    sink.quarantine([first, replace(first, id="2"), replace(first, index="other")])
    sink.quarantine([latest])
    assert list(sink.quarantined("books")) == [latest, replace(first, id="2")]
