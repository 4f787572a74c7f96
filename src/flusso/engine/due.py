"""Tokens that are due: looked up once more when nothing is written beside the batches any more.

A range of a seed or a turn of a debt reads rows as they are and writes later. In between a batch may look up
a row that has gone since, and not find the document that the range is about to write. So while there are
ranges or turns, batches remember their tokens in the sink (`referring`); here they are looked up again when
the last of them has ended, before the index counts as seeded, or the debt as paid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from flusso.document import DocumentId, key_of
from flusso.engine import tasks, work
from flusso.engine.ledger import Entry
from flusso.engine.turns import Turns
from flusso.engine.work import WorkSpec

_TOKENS = 10_000
_IDS_IN_A_SHARE = 5000


def settle_due(turns: Turns, spec: WorkSpec, entry: Entry) -> int:
    """Look up once more what was remembered for an entry that no range or turn writes any more.

    On return everything found is written. Gives the highest version handed out.
    """
    target = entry.destination.target
    if not target.keeps_references:
        return 0
    sink = work.sink(entry.destination.sink)
    spec = replace(spec, destinations={entry.plan_name: (entry.destination,)})
    columns = len(spec.plans[entry.plan_name].key)
    highest = 0
    while tokens := sink.remembered_tokens(target, _TOKENS):
        found = (
            DocumentId(entry.plan_name, key_of(id_, columns)) for id_ in sink.find_references(target, tokens)
        )
        while ids := list(islice(found, _IDS_IN_A_SHARE * turns.parallelism)):
            highest = max(highest, _write(turns, spec, ids))
        sink.forget_tokens(target, tokens)
    return highest


def _write(turns: Turns, spec: WorkSpec, ids: Sequence[DocumentId]) -> int:
    distinct = list(dict.fromkeys(ids))
    shares = [distinct[at : at + _IDS_IN_A_SHARE] for at in range(0, len(distinct), _IDS_IN_A_SHARE)]
    with turns.slots(len(shares)):
        reports = turns.run(tasks.write_held(spec, shares, only_gone=False), len(shares))
    return turns.settle(reports, spec).highest_version
