"""How a sink that keeps state writes it down: an `IndexState` as JSON text and back.

Keys that this release does not know are passed over when reading, and missing ones take their default, so
that a newer and an older release can read each other's state. A debt of a kind that this release does not
know is one for the whole index: that covers any.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from flusso.debt import Cursor, Debt, Scope
from flusso.errors import SinkRefused
from flusso.sinks.base import IndexState


def state_to_json(state: IndexState) -> str:
    """Write a state as JSON text."""
    return json.dumps(asdict(state), sort_keys=True)


def state_from_json(text: str) -> IndexState:
    """Read what `state_to_json` wrote."""
    try:
        found = _known(IndexState, json.loads(text))
        found["debts"] = tuple(map(_debt, found.get("debts", ())))
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
    return Debt(**known)
