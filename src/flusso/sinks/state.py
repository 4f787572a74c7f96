"""How a sink that keeps state writes it down: an `IndexState` as JSON text and back, under a key.

Earlier releases knew one generation of an index and kept it under the index's name: such an entry is read
too, and goes when the same generation is saved or dropped.

Keys that this release does not know are passed over when reading, and missing ones take their default, so
that a newer and an older release can read each other's state. A debt of a kind that this release does not
know is one for the whole index: that covers any.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from flusso.debt import Cursor, Debt, Reach, Scope
from flusso.errors import IndexTaken, SinkRefused
from flusso.seeding import LeafSeed, Seeding
from flusso.sinks.base import IndexState, Request, States

_SEPARATOR = "#"
"""No name of an index has this character."""
_REQUEST = f"{_SEPARATOR}request"


def state_key(index: str, generation: int) -> str:
    """Name the entry of one generation."""
    return f"{index}{_SEPARATOR}{generation}"


def request_key(index: str) -> str:
    """Name the entry of what is asked for an index."""
    return f"{index}{_REQUEST}"


def request_to_text(request: Request, generation: int) -> str:
    """Write a request, with the generation that it names if any."""
    return f"{request.value} {generation}" if generation else request.value


def states_of(entries: Mapping[str, str]) -> States:
    """Read all entries; one of an earlier release counts where its generation has no other."""
    found: dict[tuple[str, int], IndexState] = {}
    asked: dict[str, Request] = {}
    back_to: dict[str, int] = {}
    for key, text in entries.items():
        if key.endswith(_REQUEST):
            index, (word, _, generation) = key.removesuffix(_REQUEST), text.partition(" ")
            asked[index] = Request(word)
            if generation:
                back_to[index] = int(generation)
    for key in sorted(entries, key=lambda key: _SEPARATOR in key):
        if not key.endswith(_REQUEST):
            state = state_from_json(entries[key])
            found[state.index, state.generation] = state
    return States(tuple(found[place] for place in sorted(found)), asked, back_to)


def taken(index: str) -> IndexTaken:
    """Say that this process was replaced: what it knows is old."""
    return IndexTaken(
        f'a later start of flusso writes index "{index}"', hint="leave it to that one; this one has ended"
    )


def state_to_json(state: IndexState) -> str:
    """Write a state as JSON text."""
    return json.dumps(asdict(state), sort_keys=True)


def state_from_json(text: str) -> IndexState:
    """Read what `state_to_json` wrote."""
    try:
        found = _known(IndexState, json.loads(text))
        found["debts"] = tuple(map(_debt, found.get("debts", ())))
        found["references"] = tuple(found.get("references", ()))
        found["uuids"] = tuple(found.get("uuids", ()))
        found.setdefault("serves", found.get("is_seeded", False))
        found["seeding"] = _seeding(found.get("seeding", {}))
        return IndexState(**found)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise SinkRefused(
            "the state kept in the sink is not readable", hint="delete it and let flusso seed anew"
        ) from error


def _known(kind: type, found: Any) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {key: value for key, value in found.items() if key in names}


def _debt(found: Any) -> Debt:
    known = _known(Debt, found)
    is_known = known["scope"] in list(Scope) and set(known) == set(found)
    known["scope"] = Scope(known["scope"]) if is_known else Scope.WHOLE
    known["reasons"] = tuple(known["reasons"])
    known["cursor"] = Cursor(**_known(Cursor, known.get("cursor", {}))) if is_known else Cursor()
    reach = known.get("reach") if is_known else None
    known["reach"] = Reach(reach["place"], tuple(map(tuple, reach["keys"]))) if reach else None
    return Debt(**known)


def _seeding(found: Any) -> Seeding:
    known = _known(Seeding, found)
    known["leaves"] = tuple(
        LeafSeed(leaf["oid"], leaf["filenode"], tuple((start, end) for start, end in leaf["done"]))
        for leaf in known.get("leaves", ())
    )
    return Seeding(**known)
