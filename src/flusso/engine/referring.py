"""Find documents by their references: what a blind change leaves, as the sinks know it. Runs on executors.

A blind change does not say which documents its row was part of. They were written with a token for that row
(`builder/references.py`), so every generation that a batch writes is asked for them, in every sink that can
tell, and what any of them finds is built for all. docs/internals/references.md has the argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flusso.builder.references import tokens_of
from flusso.change import Change
from flusso.document import DocumentId, key_of
from flusso.engine import work
from flusso.engine.work import WorkSpec


def find_referring(spec: WorkSpec, changes: Sequence[Change]) -> Iterator[DocumentId]:
    """Give the documents that rows of blind changes were part of; without such changes nobody is asked."""
    for plan in spec.plans.values():
        tokens = tokens_of(plan.references, changes, spec.watched)
        for destination in spec.destinations.get(plan.index, ()) if tokens else ():
            if not destination.target.keeps_references:
                continue
            sink = work.sink(destination.sink)
            if destination in spec.remembers:
                # First: whatever is written after the look-up must find them remembered.
                sink.remember_tokens(destination.target, tokens)
            for id_ in sink.find_references(destination.target, tokens):
                yield DocumentId(plan.index, key_of(id_, len(plan.key)))
