"""Refused documents in a small index of their own, one entry for each index and id.

Entries are read by id, which shows what was written without a refresh; only the list of all needs one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any

from flusso.document import Refusal, Write, WriteResult
from flusso.errors import GenerationGone, SinkRefused
from flusso.schema.model import Json
from flusso.sinks.search.bulk import UNVERSIONED
from flusso.sinks.search.server import Server

PROPERTIES: dict[str, Json] = {
    "index": {"type": "keyword"},
    "id": {"type": "keyword"},
    "version": {"type": "long"},
    "sink": {"type": "keyword"},
    "reason": {"type": "keyword", "index": False, "doc_values": False},
    "at": {"type": "double", "index": False},
    "attempts": {"type": "long", "index": False},
}
_PAGE = 1000
Deliver = Callable[[Sequence[Write]], WriteResult]
"""Gets writes of entries across."""


def keep(server: Server, name: str, refusals: Sequence[Refusal], deliver: Deliver) -> None:
    """Write entries, each with one attempt more than it had."""
    writes: list[Write] = []
    before = _read(server, name, {(each.index, each.id) for each in refusals})
    for refusal in refusals:
        known = before.get((refusal.index, refusal.id))
        attempts = refusal.attempts + (known.attempts if known is not None else 0)
        body = json.dumps(asdict(replace(refusal, attempts=attempts))).encode()
        writes.append(Write(_key(refusal.index, refusal.id), UNVERSIONED, body))
    _send(server, writes, deliver)


def release(server: Server, name: str, index: str, ids: Sequence[str], version: int, deliver: Deliver) -> int:
    """Delete the entries of these documents that are not newer; give how many there were."""
    found = _read(server, name, {(index, id_) for id_ in ids})
    gone = [each for each in found.values() if each.version <= version]
    _send(server, [Write(_key(each.index, each.id), UNVERSIONED, None) for each in gone], deliver)
    return len(gone)


def entry_of(source: Mapping[str, Any]) -> Refusal:
    """Read an entry; what this release does not know of it is passed over."""
    known = {field.name for field in fields(Refusal)}
    return Refusal(**{key: value for key, value in source.items() if key in known})


def _read(server: Server, name: str, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Refusal]:
    keys = [_key(index, id_) for index, id_ in sorted(wanted)]
    found: dict[tuple[str, str], Refusal] = {}
    for at in range(0, len(keys), _PAGE):
        for document in server.retrying(partial(_fetch, server, name, keys[at : at + _PAGE])):
            entry = entry_of(document["_source"])
            found[entry.index, entry.id] = entry
    return found


def _fetch(server: Server, name: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Fetch some entries; one that could not be looked for is not taken for absent."""
    try:
        documents = server.once("POST", f"/{name}/_mget", {"ids": keys}).json["docs"]
        for failed in (document for document in documents if "error" in document):
            raise server.unread(name, failed["error"])
    except GenerationGone:  # nothing was ever refused
        return []
    return [document for document in documents if "_source" in document]


def _send(server: Server, writes: Sequence[Write], deliver: Deliver) -> None:
    for refused in deliver(writes).refusals if writes else ():
        raise SinkRefused(f'sink "{server.sink}" does not take all of the quarantine ({refused.reason})')


def _key(index: str, id_: str) -> str:
    """Both names in one id, of a length that the server takes."""
    return hashlib.sha256(f"{index}\0{id_}".encode()).hexdigest()
