"""How states are written: each in the place of the one that was read or written before it, and no other.

A request may be delayed on its way, past the time that its sender waits for it, and arrive after newer ones.
So each names the write that it follows, by the number that the server gave to it: one that comes late follows
what is there no more, and is refused. Who is refused looks at what is there, which may be its own write whose
answer was lost, and follows that, unless a later start of flusso has written it.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from flusso.sinks.base import IndexState
from flusso.sinks.search.generations import Names
from flusso.sinks.search.own import OwnIndexes
from flusso.sinks.search.server import Answer, Server
from flusso.sinks.state import state_from_json, state_key, state_to_json, taken

_CONFLICT = 409


@dataclass(frozen=True, slots=True)
class _Known:
    """A state that is there."""

    follow: dict[str, str]
    """How the next write says that it follows this one."""
    term: int = 0


_NOTHING = _Known({"op_type": "create"})


class StateWriter:
    """Writes states, and knows the last one of each key as far as this sink has seen."""

    def __init__(self, server: Server, names: Names, own: OwnIndexes) -> None:
        self._server = server
        self._names = names
        self._own = own
        self._known: dict[str, _Known] = {}

    def save(self, state: IndexState) -> None:
        """Write a state. Raises `IndexTaken` when one of a higher term is there."""
        key, text = state_key(state.index, state.generation), state_to_json(state)
        while True:
            known = self._known.get(key) or self._look(key)
            if known.term > state.term:
                raise taken(state.index)
            answer = self._put(key, text, known.follow)
            if answer.status != _CONFLICT:
                self._known[key] = _known(answer, state.term)
                return
            self._known.pop(key, None)

    def _look(self, key: str) -> _Known:
        path = f"/{self._names.meta}/_doc/{quote(key, safe='')}"
        answer = self._server.request("GET", path, allow=(404,))
        if answer.status == 404:
            return _NOTHING
        return _known(answer, state_from_json(answer.json["_source"]["state"]).term)

    def _put(self, key: str, text: str, follow: dict[str, str]) -> Answer:
        path = f"/{self._names.own_writers(self._names.meta)}/_doc/{quote(key, safe='')}"
        return self._own.writing(
            lambda: self._server.request("PUT", path, {"state": text}, params=follow, allow=(_CONFLICT,))
        )


def _known(answer: Answer, term: int) -> _Known:
    found = answer.json
    follow = {"if_seq_no": str(found["_seq_no"]), "if_primary_term": str(found["_primary_term"])}
    return _Known(follow, term)
