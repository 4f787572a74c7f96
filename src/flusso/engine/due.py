"""Tokens that are due: looked up once more when nothing is written beside the batches any more.

A range of a seed or a turn of a debt reads rows as they are and writes later. In between a batch may look up
a row that has gone since, and not find the document that the range is about to write. So while there are
ranges or turns, batches remember their tokens in the sink (`referring`); here they are looked up again when
the last of them has ended, before the index counts as seeded, or the debt as paid.

Sinks remember only so many. Beyond that nothing more is remembered, and all that the index holds is due: what
a token could lead to is among it.

Whatever is written then is written between two batches, a share of it at a time, as if it were one: nobody
remembers for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice

from flusso.document import DocumentId, key_of
from flusso.engine import tasks, work
from flusso.engine.entry import Entry
from flusso.engine.events import DebtFound, DebtPaid
from flusso.engine.ledger import Ledger
from flusso.engine.referring import find_unbuilt
from flusso.engine.turns import Turns
from flusso.engine.work import WorkSpec

_TOKENS = 10_000
_IDS_IN_A_SHARE = 1000
"""Few enough that the stream waits for a moment only."""


def settle_due(turns: Turns, spec: WorkSpec, ledger: Ledger, entry: Entry) -> int:
    """Look up once more what was remembered for an entry that no range or turn writes any more.

    Where that was too much to be remembered, all that is held is built once more. On return everything found
    is written. Gives the highest version handed out.
    """
    target = entry.destination.target
    if not target.keeps_references:
        return 0
    sink, is_all = work.sink(entry.destination.sink), entry.state.is_all_due
    spec = replace(
        spec,
        quarantines=turns.quarantine.holders,
        destinations={entry.plan_name: (entry.destination,)},
    )
    unbuilt = find_unbuilt(spec, spec.plans[entry.plan_name], entry.destination)
    highest = _write_all(turns, spec, entry, unbuilt) if is_all else 0
    while tokens := sink.remembered_tokens(target, _TOKENS):
        if not is_all:
            found = chain(unbuilt, _named(spec, entry, sink.find_references(target, tokens)))
            highest = max(highest, _write(turns, spec, found)[1])
        sink.forget_tokens(target, tokens)
    if entry.state.is_all_due:
        ledger.end_due(entry)
    return highest


def _write_all(turns: Turns, spec: WorkSpec, entry: Entry, unbuilt: Iterator[DocumentId]) -> int:
    began_s = time.monotonic()
    place = entry.state.index, entry.destination.sink.name
    turns.tell(DebtFound(*place, "more rows changed while it was written than are remembered"))
    held = work.sink(entry.destination.sink).ids(entry.destination.target)
    documents, highest = _write(turns, spec, chain(unbuilt, _named(spec, entry, held)))
    turns.tell(DebtPaid(*place, documents, time.monotonic() - began_s))
    return highest


def _named(spec: WorkSpec, entry: Entry, ids: Iterable[str]) -> Iterator[DocumentId]:
    columns = len(spec.plans[entry.plan_name].key)
    return (DocumentId(entry.plan_name, key_of(id_, columns)) for id_ in ids)


def _write(turns: Turns, spec: WorkSpec, found: Iterator[DocumentId]) -> tuple[int, int]:
    """Write documents a share at a time, each between two batches; give how many, and the highest version."""
    documents = highest = 0
    while ids := list(dict.fromkeys(islice(found, _IDS_IN_A_SHARE * turns.parallelism))):
        shares = [ids[at : at + _IDS_IN_A_SHARE] for at in range(0, len(ids), _IDS_IN_A_SHARE)]
        planned = turns.plan(tasks.write_held(spec, shares, only_gone=False), len(shares))
        with turns.gate:  # so it needs no slots: the batch that would have them is not in hand
            totals = turns.settle(planned(), spec)
        documents += len(ids)
        highest = max(highest, totals.highest_version)
    return documents, highest
