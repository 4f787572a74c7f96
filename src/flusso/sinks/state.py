"""How a sink that keeps state writes it down: an `IndexState` as JSON text and back.

Keys that this release does not know are passed over when reading, and missing ones take their default, so
that a newer and an older release can read each other's state.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields

from flusso.errors import SinkRefused
from flusso.sinks.base import IndexState

_KNOWN = frozenset(field.name for field in fields(IndexState))


def state_to_json(state: IndexState) -> str:
    """Write a state as JSON text."""
    return json.dumps(asdict(state), sort_keys=True)


def state_from_json(text: str) -> IndexState:
    """Read what `state_to_json` wrote."""
    try:
        found = json.loads(text)
        return IndexState(**{key: value for key, value in found.items() if key in _KNOWN})
    except (ValueError, TypeError, AttributeError) as error:
        raise SinkRefused(
            "the state kept in the sink is not readable", hint="delete it and let flusso seed anew"
        ) from error
