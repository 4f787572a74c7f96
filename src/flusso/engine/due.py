"""Tokens that are due: looked up once more when nothing is written beside the batches any more.

A range of a seed or a turn of a debt reads rows as they are and writes later. In between a batch may look up
a row that has gone since, and not find the document that the range is about to write. So while there are
ranges or turns, batches remember their tokens in the sink (`referring`); here they are looked up again when
the last of them has ended, before the index counts as seeded, or the debt as paid.

Whatever is written then is written between two batches, a share of it at a time, as if it were one: nobody
remembers for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice

from flusso.document import DocumentId, key_of
from flusso.engine import tasks, work
from flusso.engine.ledger import Entry
from flusso.engine.referring import find_unbuilt
from flusso.engine.turns import Turns
from flusso.engine.work import WorkSpec

_TOKENS = 10_000
_IDS_IN_A_SHARE = 1000
"""Few enough that the stream waits for a moment only."""


def settle_due(turns: Turns, spec: WorkSpec, entry: Entry) -> int:
    """Look up once more what was remembered for an entry that no range or turn writes any more.

    On return everything found is written. Gives the highest version handed out.
    """
    target = entry.destination.target
    if not target.keeps_references:
        return 0
    sink = work.sink(entry.destination.sink)
    spec = replace(
        spec,
        quarantines=turns.quarantine.holders,
        destinations={entry.plan_name: (entry.destination,)},
    )
    plan = spec.plans[entry.plan_name]
    unbuilt = find_unbuilt(spec, plan, entry.destination)
    highest = 0
    while tokens := sink.remembered_tokens(target, _TOKENS):
        referring = sink.find_references(target, tokens)
        found = chain(unbuilt, (DocumentId(entry.plan_name, key_of(id_, len(plan.key))) for id_ in referring))
        while ids := list(islice(found, _IDS_IN_A_SHARE * turns.parallelism)):
            highest = max(highest, _write(turns, spec, ids))
        sink.forget_tokens(target, tokens)
    return highest


def _write(turns: Turns, spec: WorkSpec, ids: Sequence[DocumentId]) -> int:
    distinct = list(dict.fromkeys(ids))
    shares = [distinct[at : at + _IDS_IN_A_SHARE] for at in range(0, len(distinct), _IDS_IN_A_SHARE)]
    with turns.gate:  # so it needs no slots: the batch that would have them is not in hand
        reports = turns.run(tasks.write_held(spec, shares, only_gone=False), len(shares))
        return turns.settle(reports, spec).highest_version
