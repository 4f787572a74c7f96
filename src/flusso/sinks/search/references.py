"""References of documents in a search cluster: an index of their own beside each generation that keeps them.

    {generation}_refs          the index: the tokens of each document, under its id and its version
    {generation}_refs_WRITER   an alias, for writers, as the generation has one

They are not a field of the document, because the server can keep a field out of `_source` only by writing all
of it anew, and then `12.50` is `12.5` and a long number loses digits. Here nothing is kept but the terms.

A document is written first and its tokens after it, so tokens are never newer than what they speak of: who
is killed in between and begins again still finds the document by what it had. Tokens that are too old do no
harm.

The same index remembers tokens that must be looked up once more. Their ids begin with `~due-`, which no
document's does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flusso.document import Write
from flusso.schema.model import Json
from flusso.sinks.base import IndexTarget
from flusso.sinks.search.bulk import UNVERSIONED
from flusso.sinks.search.generations import IndexSettings, Names, claim_writing, create_index
from flusso.sinks.search.pages import walk_ids
from flusso.sinks.search.server import Server

MAX_TERMS = 65_536
"""Of one query, as `index.max_terms_count` has it."""
MAX_HITS = 10_000
"""Of one answer, as `index.max_result_window` has it."""
_DUE = "~due-"
_KEPT = b'{"due":true}'
_IS_DUE: Json = {"term": {"due": True}}


def ensure_references(server: Server, names: Names, target: IndexTarget, settings: IndexSettings) -> None:
    """Make the index of a generation's references, unless it is there. It is refreshed only for a look-up."""
    term = {"type": "keyword", "doc_values": False, "norms": False}
    body = {
        "settings": {
            "index.number_of_shards": settings.number_of_shards,
            "index.number_of_replicas": settings.number_of_replicas,
            "index.refresh_interval": "-1",
            "index.hidden": True,
        },
        "mappings": {
            "dynamic": "strict",
            "_source": {"enabled": False},
            "properties": {"tokens": term, "due": {"type": "boolean", "doc_values": False}},
        },
        "aliases": {names.reference_writers(target): {"is_hidden": True}},
    }
    name = names.references(target)
    if not create_index(server, name, body):
        live = {"number_of_replicas": settings.number_of_replicas}
        server.request("PUT", f"/{name}/_settings", {"index": live})
    claim_writing(server, name, names.reference_writers(target), target)


def reference_writes(writes: Sequence[Write]) -> list[Write]:
    """Turn writes of documents into those of their tokens; one without any is a removal."""
    return [
        Write(write.id, write.version, _body(write)) for write in writes if write.body is None or write.tokens
    ]


def _body(write: Write) -> bytes | None:
    if write.body is None or write.tokens in (None, b"[]"):
        return None
    return b'{"tokens":' + (write.tokens or b"") + b"}"


def find_referring(server: Server, name: str, tokens: Sequence[str], preference: str) -> Iterator[str]:
    """Give the ids of all documents that have any of the tokens, whatever was written before."""
    if not tokens:
        return
    server.refresh(name)
    for at in range(0, len(tokens), MAX_TERMS):
        wanted: Json = {"terms": {"tokens": list(tokens[at : at + MAX_TERMS])}}
        yield from _ids(server, name, wanted, preference)


def due_writes(tokens: Sequence[str], *, is_due: bool) -> list[Write]:
    """Turn tokens into writes that keep them for a later look-up, or no longer."""
    return [Write(f"{_DUE}{token}", UNVERSIONED, _KEPT if is_due else None) for token in tokens]


def find_due(server: Server, name: str, preference: str, limit: int) -> list[str]:
    """Give up to so many of the tokens that are kept."""
    server.refresh(name)
    size = min(limit, MAX_HITS)
    found = _search(server, name, _IS_DUE, size, preference)
    return [str(hit["_id"]).removeprefix(_DUE) for hit in found["hits"]]


def count_due(server: Server, name: str, preference: str) -> int:
    """Count the tokens that are kept."""
    server.refresh(name)
    return int(_search(server, name, _IS_DUE, 0, preference)["total"]["value"])


def _ids(server: Server, name: str, query: Json, preference: str) -> Iterator[str]:
    """Ask once; only what does not fit into one answer is gone through page by page.

    Not by a scroll: whoever takes the ids may write what they name before asking for the next, and the
    server would have forgotten it by then.
    """
    found = _search(server, name, query, MAX_HITS, preference)
    if found["total"]["value"] <= MAX_HITS:
        yield from (str(hit["_id"]) for hit in found["hits"])
    else:
        yield from walk_ids(server, name, query, MAX_HITS, preference)


def _search(server: Server, name: str, query: Json, size: int, preference: str) -> dict[str, Any]:
    body = {
        "query": {"bool": {"filter": query}},
        "size": size,
        "sort": ["_doc"],
        "_source": False,
        "track_total_hits": True,
    }
    params = {"allow_partial_search_results": "false"} | ({"preference": preference} if preference else {})
    found: dict[str, Any] = server.whole("POST", f"/{name}/_search", body, params=params).json["hits"]
    return found
