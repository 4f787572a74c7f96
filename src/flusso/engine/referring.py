"""Find documents by their references: what a blind change leaves, as the sinks know it. Runs on executors.

A blind change does not say which documents its row was part of. They were written with a token for that row
(`builder/references.py`), so every generation that a batch writes is asked for them, in every sink that can
tell, and what any of them finds is built for all. Where that is too much for a batch the tokens are owed, and
looked up beside the batches (`engine/debts.py`). docs/internals/references.md has the argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from flusso.builder.plan import IndexPlan
from flusso.builder.references import tables_named, tokens_of
from flusso.change import Change
from flusso.debt import BY_REFERENCES, MOST_KEYS, Owed, Reach, Scope
from flusso.document import UNBUILT, DocumentId, key_of
from flusso.engine import work
from flusso.engine.work import Destination, WorkSpec

_UNBUILT_IN_A_BATCH = 100
"""Each that still cannot be built costs a statement or two."""


def find_referring(spec: WorkSpec, changes: Sequence[Change]) -> Iterator[DocumentId | Owed]:
    """Give the documents that rows of blind changes were part of; without such changes nobody is asked."""
    for plan in spec.plans.values():
        tokens = tokens_of(plan.references, changes, spec.watched)
        for destination in spec.destinations.get(plan.index, ()) if tokens else ():
            if not destination.target.keeps_references:
                continue
            if destination in spec.remembers:
                # First: whatever is written after the look-up must find them remembered.
                work.sink_of(destination).remember_tokens(destination.target, tokens)
            yield from _find(plan, destination, tokens, spec.max_fan_out)
            yield from islice(find_unbuilt(spec, plan, destination), _UNBUILT_IN_A_BATCH)


def find_unbuilt(spec: WorkSpec, plan: IndexPlan, destination: Destination) -> Iterator[DocumentId]:
    """Give the documents in quarantine that could not be built, first those that were tried longest ago.

    They were written with no tokens, and whatever row goes may be the one that spoils them.
    """
    index = destination.target.index
    if (destination.sink.name, index) in spec.quarantines:
        held = sorted(work.sink_of(destination).quarantined(index), key=lambda refusal: refusal.at)
        ids = (refusal.id for refusal in held if refusal.reason.startswith(UNBUILT))
        yield from (DocumentId(plan.index, key_of(id_, len(plan.key))) for id_ in ids)


def _find(
    plan: IndexPlan, destination: Destination, tokens: Sequence[str], limit: int
) -> Iterator[DocumentId | Owed]:
    """Give the documents that have tokens, or, where they are too many, what is owed."""
    found: dict[str, None] = {}
    for id_ in work.sink_of(destination).find_references(destination.target, tokens):
        found[id_] = None
        if len(found) > limit:
            break
    else:
        yield from (DocumentId(plan.index, key_of(id_, len(plan.key))) for id_ in found)
        return
    if len(tokens) > MOST_KEYS:
        # One of them may be in nearly all, or each in one: look again by fewer, so that only those are owed.
        for at in range(0, len(tokens), MOST_KEYS):
            yield from _find(plan, destination, tokens[at : at + MOST_KEYS], limit)
    else:
        tables = ", ".join(map(str, tables_named(plan.references, tokens)))
        why = f"rows of {tables} changed that more than {limit:,} documents showed"
        keys = tuple((token,) for token in tokens)
        yield Owed(plan.index, Scope.REACHED, why, Reach(BY_REFERENCES, keys))
