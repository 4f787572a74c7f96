"""The search sink: the contract of `sinks/base.py` over HTTP, for OpenSearch and its relatives.

State and quarantine are small indexes of their own beside the documents. Both are read after a refresh and
written without one: durable is what the server acknowledged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote

from flusso.document import Refusal, Write, WriteResult
from flusso.errors import GenerationGone, SinkRefused
from flusso.schema.mapping import index_mapping
from flusso.schema.model import IndexSchema, Json
from flusso.sinks.base import Held, Hit, IndexState, IndexTarget, Page, Request, States, Stored
from flusso.sinks.rawjson import elements, members, objects
from flusso.sinks.search import quarantine
from flusso.sinks.search.bulk import no_pipeline
from flusso.sinks.search.delivery import deliver
from flusso.sinks.search.generations import (
    IndexSettings,
    Names,
    claim_generation,
    drop_generation,
    ensure_generation,
    is_published,
    list_generations,
    publish_generation,
    read_uuid,
)
from flusso.sinks.search.mend import Fields, mend, opaque_fields
from flusso.sinks.search.own import OwnIndexes
from flusso.sinks.search.pace import Pace
from flusso.sinks.search.pages import read_page
from flusso.sinks.search.query import search_body
from flusso.sinks.search.references import (
    count_due,
    due_writes,
    ensure_references,
    find_due,
    find_referring,
    reference_writes,
)
from flusso.sinks.search.removals import MARK, joined, marks_of, purge_marks, without_marks
from flusso.sinks.search.server import Server
from flusso.sinks.search.states import StateWriter
from flusso.sinks.state import request_key, request_to_text, state_from_json, state_key, states_of

_READ_PAGE = 1000
_SCAN_PAGE = 5000
_NO_PIPELINE = "_none"
_SCAN_TIME = "2m"


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What the sink needs beside a server."""

    prefix: str
    index: IndexSettings
    pipeline: str | None
    text_analysis: str
    auto_subfields: bool
    preference: str = ""
    """Which copies of a shard look-ups go to, where a refresh does not reach all at once."""


class SearchSink:
    """An open sink in a search cluster."""

    def __init__(self, server: Server, settings: SearchSettings, pace: Pace) -> None:
        self._server = server
        self._pace = pace
        self._settings = settings
        self._names = Names(settings.prefix)
        self._own = OwnIndexes(server, self._names, settings.index.number_of_replicas)
        self._states = StateWriter(server, self._names, self._own)
        self._opaque: dict[IndexTarget, Fields] = {}

    def ensure(self, target: IndexTarget, schema: IndexSchema) -> None:
        """Make the generation's index with its mapping, and the indexes for state and quarantine."""
        self._own.ensure()
        self._check_pipeline()
        mapping = index_mapping(
            schema,
            text_analysis=self._settings.text_analysis,
            auto_subfields=self._settings.auto_subfields,
        )
        ensure_generation(self._server, self._names, target, self._settings.index, mapping)
        if target.keeps_references:
            ensure_references(self._server, self._names, target, self._settings.index)

    def _check_pipeline(self) -> None:
        """Refuse a pipeline that is not there. Whoever may not ask for it is told by the first write."""
        name = self._settings.pipeline
        if name is None or name == _NO_PIPELINE:
            return
        path = f"/_ingest/pipeline/{quote(name, safe='')}"
        if self._server.request("GET", path, allow=(403, 404)).status == 404:
            raise no_pipeline(f'sink "{self._server.sink}" has no ingest pipeline "{name}"')

    def write(
        self, target: IndexTarget, writes: Sequence[Write], *, refresh: bool, until: float | None = None
    ) -> WriteResult:
        """Apply writes by bulk requests, documents before their tokens; the server compares versions."""
        alias, pipeline = self._names.writers(target), self._settings.pipeline
        if target.keeps_removals:
            documents, marks = marks_of(writes)
            written = self._deliver(target, alias, documents, refresh, pipeline, until)
            result = joined(written, self._deliver(target, alias, marks, refresh, _NO_PIPELINE, until))
        else:
            result = self._deliver(target, alias, writes, refresh, pipeline, until)
        if not target.keeps_references:
            return result
        # Of a refused document as well: what will let it be taken may be a change of a row that it contains.
        tokens = reference_writes(writes)
        kept = self._deliver(target, self._names.reference_writers(target), tokens, False, None, until)
        waited_s = result.backed_off_s + kept.backed_off_s
        return replace(result, refusals=result.refusals + kept.refusals, backed_off_s=waited_s)

    def _deliver(
        self,
        target: IndexTarget,
        alias: str,
        writes: Sequence[Write],
        refresh: bool,
        pipeline: str | None,
        until: float | None,
    ) -> WriteResult:
        pace = self._pace
        return deliver(
            self._server, target.index, alias, writes, pace, refresh=refresh, pipeline=pipeline, until=until
        )

    def find_references(self, target: IndexTarget, tokens: Sequence[str]) -> Iterator[str]:
        """Look tokens up in the index of references."""
        return find_referring(self._server, self._names.references(target), tokens, self._settings.preference)

    def remember_tokens(self, target: IndexTarget, tokens: Sequence[str]) -> None:
        """Keep tokens beside the references."""
        self._write_due(target, due_writes(tokens, is_due=True))

    def remembered_tokens(self, target: IndexTarget, limit: int) -> Sequence[str]:
        """Give some of the tokens that are kept."""
        return find_due(self._server, self._names.references(target), self._settings.preference, limit)

    def count_tokens(self, target: IndexTarget) -> int:
        """Count the tokens that are kept."""
        return count_due(self._server, self._names.references(target), self._settings.preference)

    def forget_tokens(self, target: IndexTarget, tokens: Sequence[str]) -> None:
        """Keep these no longer."""
        self._write_due(target, due_writes(tokens, is_due=False))

    def _write_due(self, target: IndexTarget, writes: Sequence[Write]) -> None:
        alias = self._names.reference_writers(target)
        for refused in self._deliver(target, alias, writes, False, None, None).refusals:
            raise SinkRefused(f'sink "{refused.sink}" refused a token that is due ({refused.reason})')

    def refresh(self, target: IndexTarget) -> None:
        """Make everything written so far searchable."""
        self._server.refresh(self._names.concrete(target))

    def uuids(self, target: IndexTarget) -> tuple[str, ...] | None:
        """Look for the generation's index, and that of its references: made anew, it would find nothing."""
        names = [self._names.concrete(target)]
        names += [self._names.references(target)] if target.keeps_references else []
        try:
            return tuple(read_uuid(self._server, name) for name in names)
        except GenerationGone:
            return None

    def is_read(self, target: IndexTarget) -> bool:
        """Look where the readers' alias points."""
        return is_published(self._server, self._names, target)

    def purge(self, target: IndexTarget) -> None:
        """Delete the documents that stand for removals."""
        alias = self._names.writers(target)
        purge_marks(
            self._server,
            self._names.concrete(target),
            self._settings.preference,
            lambda removals: self._deliver(target, alias, removals, False, None, None),
        )

    def publish(self, target: IndexTarget) -> None:
        """Move the alias."""
        publish_generation(self._server, self._names, target, self._settings.index.refresh_interval)

    def claim(self, target: IndexTarget) -> None:
        """Take the aliases for writers."""
        claim_generation(self._server, self._names, target)

    def held(self) -> Sequence[Held]:
        """List the generations of the cluster that are ours."""
        return list_generations(self._server, self._names)

    def drop(self, target: IndexTarget) -> None:
        """Delete the generation's index, then its state."""
        drop_generation(self._server, self._names, target)
        self._forget_state(state_key(target.index, target.generation))
        earlier = self._server.request("GET", self._state_path(target.index), allow=(404,))
        if earlier.status == 200:
            kept = state_from_json(earlier.json["_source"]["state"])
            if kept.generation == target.generation:
                self._forget_state(target.index)

    def read(self, target: IndexTarget, ids: Sequence[str]) -> Mapping[str, Stored]:
        """Fetch documents by id, from the log where they are not yet in a segment."""
        found: dict[str, Stored] = {}
        for at in range(0, len(ids), _READ_PAGE):
            found |= self._server.retrying(partial(self._fetch, target, ids[at : at + _READ_PAGE]))
        return found

    def _fetch(self, target: IndexTarget, ids: Sequence[str]) -> dict[str, Stored]:
        """Fetch some documents; one that could not be looked for is not taken for absent."""
        found: dict[str, Stored] = {}
        text = self._server.once("POST", f"/{self._names.concrete(target)}/_mget", {"ids": list(ids)}).text
        for places in objects(text, "docs"):
            if "error" in places:
                raise self._server.unread(target.index, _value(text, places["error"]))
            if "_source" in places:
                body = _cut(text, places["_source"])
                if body.encode() == MARK:
                    continue
                version = int(_value(text, places["_version"]))
                found[_value(text, places["_id"])] = Stored(version, body.encode())
        return found

    def mended(self, target: IndexTarget, body: bytes) -> bytes | None:
        """Give the document with the JSON that the server refuses as text."""
        fields = self._opaque.get(target)
        if fields is None:
            found = self._server.request("GET", f"/{self._names.concrete(target)}/_mapping").json
            fields = self._opaque[target] = opaque_fields(next(iter(found.values()))["mappings"])
        return mend(body, fields) if fields else None

    def ids(self, target: IndexTarget) -> Iterator[str]:
        """Go through all ids, page by page."""
        after, is_last = "", False
        while not is_last:
            page = self.page(target, after, _SCAN_PAGE)
            yield from page.ids
            after, is_last = page.after, not page.after

    def page(self, target: IndexTarget, after: str, limit: int) -> Page:
        """Give the next ids in the order in which they were last written, shard by shard."""
        if not after:
            self.refresh(target)
        return read_page(self._server, self._names.concrete(target), after, limit)

    def count(self, target: IndexTarget) -> int:
        """Count the documents that a search can see."""
        query = {"query": without_marks({"match_all": {}})}
        path = f"/{self._names.concrete(target)}/_count"
        return int(self._server.request("POST", path, query).json["count"])

    def load_states(self) -> States:
        """Read what is remembered."""
        hits = self._all_of(self._names.meta, {"query": {"match_all": {}}})
        return states_of({str(hit["_id"]): hit["_source"]["state"] for hit in hits})

    def save_state(self, state: IndexState) -> None:
        """Remember."""
        self._states.save(state)

    def ask(self, index: str, request: Request, generation: int = 0) -> None:
        """Leave a request."""
        self._own.ensure()
        path = f"/{self._names.own_writers(self._names.meta)}/_doc/{quote(request_key(index), safe='')}"
        self._own.writing(
            lambda: self._server.request("PUT", path, {"state": request_to_text(request, generation)})
        )

    def answer(self, index: str) -> None:
        """Forget a request."""
        self._forget_state(request_key(index))

    def _forget_state(self, key: str) -> None:
        self._server.request("DELETE", self._state_path(key), allow=(404,))

    def _state_path(self, key: str) -> str:
        return f"/{self._names.meta}/_doc/{quote(key, safe='')}"

    def quarantine(self, refusals: Sequence[Refusal]) -> None:
        """Keep refused documents."""
        self._own.ensure()
        quarantine.keep(self._server, self._names.quarantine, refusals, self._deliver_entries)

    def release(self, index: str, ids: Sequence[str], version: int) -> int:
        """Forget refused documents."""
        name = self._names.quarantine
        return quarantine.release(self._server, name, index, ids, version, self._deliver_entries)

    def _deliver_entries(self, writes: Sequence[Write]) -> WriteResult:
        name = self._names.quarantine
        alias = self._names.own_writers(name)
        return self._own.writing(
            lambda: deliver(self._server, name, alias, writes, self._pace, refresh=False, pipeline=None)
        )

    def quarantined(self, index: str) -> Sequence[Refusal]:
        """List what is in quarantine, by id."""
        hits = self._all_of(self._names.quarantine, {"query": {"term": {"index": index}}})
        return sorted((quarantine.entry_of(hit["_source"]) for hit in hits), key=lambda refusal: refusal.id)

    def search(
        self, index: str, query: str, limit: int, where: Sequence[tuple[str, str]] = ()
    ) -> Sequence[Hit]:
        """Find documents that have all the words, best first."""
        alias = self._names.readers(index)
        answer = self._server.request("GET", f"/{alias}/_mapping", allow=(404,))
        if answer.status == 404 or not (query.strip() or where):
            return []
        mappings = next(iter(answer.json.values()))["mappings"]
        text = self._server.request(
            "POST", f"/{alias}/_search", search_body(mappings, query, limit, where)
        ).text
        hits: list[Hit] = []
        for start in elements(text, members(text, members(text)["hits"][0])["hits"][0]):
            places = members(text, start)
            found = _cut(text, places["_source"]).encode()
            hits.append(Hit(_value(text, places["_id"]), float(_value(text, places["_score"]) or 0), found))
        return hits

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _all_of(self, name: str, body: dict[str, Json]) -> list[dict[str, Any]]:
        """Read one of our own small indexes whole; empty when it was never made."""
        if self._server.request("POST", f"/{name}/_refresh", allow=(404,)).status == 404:
            return []
        return self._server.retrying(lambda: self._scanned(name, body))

    def _scanned(self, name: str, body: dict[str, Json]) -> list[dict[str, Any]]:
        """Give all hits of a query as they are at one moment; it is short, so a scroll does not run out."""
        path, params = f"/{name}/_search", {"scroll": _SCAN_TIME}
        page = self._server.once(
            "POST", path, body | {"size": _SCAN_PAGE, "sort": ["_doc"]}, params=params
        ).json
        found: list[dict[str, Any]] = []
        while page["hits"]["hits"]:
            found += page["hits"]["hits"]
            following = {"scroll": _SCAN_TIME, "scroll_id": page["_scroll_id"]}
            answer = self._server.once("POST", "/_search/scroll", following, allow=(404,))
            if answer.status == 404:  # of a node that was restarted
                raise self._server.partial()
            page = answer.json
        self._server.request("DELETE", "/_search/scroll", {"scroll_id": page["_scroll_id"]}, allow=(404,))
        return found


def _cut(text: str, place: tuple[int, int]) -> str:
    return text[place[0] : place[1]]


def _value(text: str, place: tuple[int, int]) -> Any:
    return json.loads(_cut(text, place))
