"""Removals that nothing forgets: while a generation is filled, a document stands for each.

A search server remembers the version of a deleted document in memory, for a while: a restart forgets it, and
a range of a seed that read before the removal could bring the document back. So a removal is written as a
document with a mark, under its version, and the marks go before readers come. A mark is a field that no other
document has; whoever counts or lists leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from flusso.document import Write, WriteResult
from flusso.errors import SinkRefused
from flusso.schema.model import Json
from flusso.sinks.search.server import Server

_FIELD = "_flusso_removed"
MARK = b'{"_flusso_removed":true}'
MARK_MAPPING: dict[str, Json] = {_FIELD: {"type": "boolean"}}
_MARKS: Json = {"term": {_FIELD: True}}
_AT_A_TIME = 10_000
"""As many as one answer may have."""


def without_marks(query: Json) -> Json:
    """Narrow a query to documents."""
    return {"bool": {"filter": [query], "must_not": [_MARKS]}}


def marks_of(writes: Sequence[Write]) -> tuple[list[Write], list[Write]]:
    """Split writes into documents and the marks of removals."""
    documents = [write for write in writes if write.body is not None]
    return documents, [write._replace(body=MARK) for write in writes if write.body is None]


def joined(documents: WriteResult, marks: WriteResult) -> WriteResult:
    """Add up what became of both: a mark that was written is a removal."""
    return replace(
        documents,
        removed=marks.written,
        superseded=documents.superseded + marks.superseded,
        refusals=documents.refusals + marks.refusals,
        newest_conflict=max(documents.newest_conflict, marks.newest_conflict),
        backed_off_s=documents.backed_off_s + marks.backed_off_s,
    )


def purge_marks(
    server: Server, name: str, preference: str, deliver: Callable[[Sequence[Write]], WriteResult]
) -> None:
    """Delete all marks of an index. What became a document meanwhile is newer, and is left alone.

    Ends when a search that every shard took part in finds none: readers would see a mark that was overlooked.
    """
    query = {"query": _MARKS, "size": _AT_A_TIME, "version": True, "_source": False, "sort": ["_doc"]}
    params = {"allow_partial_search_results": "false"} | ({"preference": preference} if preference else {})
    while True:
        server.refresh(name)
        hits = server.whole("POST", f"/{name}/_search", query, params=params).json["hits"]["hits"]
        if not hits:
            return
        result = deliver([Write(str(hit["_id"]), int(hit["_version"]), None) for hit in hits])
        if result.refusals:  # else asked for again and again
            raise SinkRefused(
                f'sink "{server.sink}" does not let go of a removal in "{name}" ({result.refusals[0].reason})'
            )
