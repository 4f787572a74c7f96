"""Readers through a reindex: they see one whole generation or the next, and nothing goes back."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from fix_postgres import Database
from flusso.engine.events import ReadersMoved
from flusso.engine.session import Session
from flusso.engine.spec import PipelineSpec
from flusso.sinks.base import Request, SinkSpec
from flusso.sinks.search.opensearch import OpenSearchSpec
from market import create_market
from pipelines import Run, assert_exact, market_spec, sqlite_sink

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

_USERS = 1500
_DOOMED = 500
"""Users up to this id may be deleted; whoever is above stays."""
_MOST = 20_000
"""As many may come meanwhile: what one answer of a reader holds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reader found at one moment."""

    staying: int
    """How many of the users that nobody deletes."""
    doomed: frozenset[int]
    """Those of the others that are there."""
    name: str
    """Of one that is renamed again and again."""
    inserted: frozenset[int] = frozenset()
    """Those that came meanwhile, whom nobody deletes."""
    marks: int = 0
    """Documents that stand for a removal, which no reader may see."""


def read_sqlite(path: Path) -> Callable[[], Seen]:
    conn = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False, timeout=60)

    def read() -> Seen:
        (found,) = conn.execute(
            f"select sum(number between {_DOOMED + 1} and {_USERS}),"
            f" json_group_array(number) filter (where number <= {_DOOMED}),"
            f" max(case when number = {_USERS} then body ->> '$.name' end),"
            f" json_group_array(number) filter (where number > {_USERS})"
            " from (select body, body ->> '$.id' as number from documents"
            " where target = (select target from published where name = 'users') and body is not null)"
        ).fetchall()
        return Seen(found[0], frozenset(json.loads(found[1])), found[2], frozenset(json.loads(found[3])))

    return read


def read_opensearch(spec: OpenSearchSpec) -> Callable[[], Seen]:
    one = {"top_hits": {"size": 1, "_source": ["name"]}}
    staying = {"range": {"id": {"gt": _DOOMED, "lte": _USERS}}}
    ids = {"terms": {"field": "id", "size": _MOST}}
    body = {
        "size": 0,
        "aggs": {
            "staying": {"filter": staying},
            "doomed": {"filter": {"range": {"id": {"lte": _DOOMED}}}, "aggs": {"ids": ids}},
            "inserted": {"filter": {"range": {"id": {"gt": _USERS}}}, "aggs": {"ids": ids}},
            "known": {"filter": {"term": {"id": _USERS}}, "aggs": {"one": one}},
            "marks": {"filter": {"bool": {"must_not": {"exists": {"field": "id"}}}}},
        },
    }

    def read() -> Seen:
        request = urllib.request.Request(
            f"{spec.urls[0]}/{spec.prefix}users/_search",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)["aggregations"]
        hits = found["known"]["one"]["hits"]["hits"]
        return Seen(
            found["staying"]["doc_count"],
            frozenset(bucket["key"] for bucket in found["doomed"]["ids"]["buckets"]),
            hits[0]["_source"]["name"] if hits else "",
            frozenset(bucket["key"] for bucket in found["inserted"]["ids"]["buckets"]),
            found["marks"]["doc_count"],
        )

    return read


@dataclass(slots=True)
class Reader:
    """Reads the alias as fast as it can, and keeps what was lacking, came back, went back or vanished."""

    read: Callable[[], Seen]
    faults: list[tuple[Seen, Seen | str]] = field(default_factory=list)
    looks: int = 0
    last: Seen = field(default=Seen(0, frozenset(), ""))

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                found = self.read()
            except Exception as error:
                self.faults.append((self.last, repr(error)))
                continue
            is_whole = found.staying == _USERS - _DOOMED and not found.marks
            is_later = found.doomed <= self.last.doomed and found.inserted >= self.last.inserted
            if not is_whole or not is_later or found.name < self.last.name:
                self.faults.append((self.last, found))
            self.last = found
            self.looks += 1


def write(database: Database, stop: threading.Event) -> None:
    """Insert while there is room, rename one user again and again, and delete others."""
    with database.connect() as conn:
        for number in itertools.count(1):
            if stop.is_set():
                return
            conn.execute("update public.users set name = %s where id = 1500", (f"x{number:08}",))
            if number <= _MOST:
                conn.execute("insert into public.users values (%s, 'new')", (_USERS + number,))
            conn.execute("delete from public.users where id = %s", (number,) if number <= _DOOMED else (0,))


@contextmanager
def beside(*targets: Callable[[threading.Event], Any]) -> Iterator[None]:
    stop = threading.Event()
    threads = [threading.Thread(target=target, args=(stop,), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def ask(sink: SinkSpec, request: Request) -> None:
    with contextlib.closing(sink.open()) as opened:
        opened.ask("users", request)


def reindex_under_load(database: Database, spec: PipelineSpec, session: Session, reader: Reader) -> None:
    """Reindex while it runs, then change the schema; readers and writers go on through both."""
    sink = spec.indexes[0].sinks[0]
    with Run(spec, session) as run:
        run.wait_seeded()
        reader.last = reader.read()
        assert (reader.last.staying, len(reader.last.doomed)) == (_USERS - _DOOMED, _DOOMED)
        with beside(reader.run, lambda stop: write(database, stop)):
            ask(sink, Request.REINDEX)
            run.wait(lambda: len(run.of(ReadersMoved)) == 2, what="readers to move")
            seen = reader.looks
            run.wait(lambda: reader.looks > seen + 3, what="readers to look once more")
        assert reader.faults == []
        run.wait_exact(database)
        assert [event.generation for event in run.of(ReadersMoved)] == [1, 2]
    assert_exact(database, spec)
    assert len(reader.last.doomed) < _DOOMED
    assert reader.last.inserted
    fewer = tuple(item for item in spec.indexes[0].schema.fields if item.name != "email")
    schema = replace(spec.indexes[0].schema, fields=fewer)
    changed = replace(spec, indexes=(replace(spec.indexes[0], schema=schema),))
    with beside(reader.run, lambda stop: write_on(database, stop)), Run(changed, session) as run:
        run.wait(lambda: run.of(ReadersMoved), what="readers to move to the new schema")
        seen = reader.looks
        run.wait(lambda: reader.looks > seen + 3, what="readers to look once more")
    assert reader.faults == []
    assert [event.generation for event in run.of(ReadersMoved)] == [3]


def write_on(database: Database, stop: threading.Event) -> None:
    with database.connect() as conn:
        for number in itertools.count(1):
            if stop.is_set():
                return
            conn.execute("update public.users set name = %s where id = 1500", (f"y{number:08}",))


def test_no_reader_of_a_file_sees_anything_go_back_through_a_reindex(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=_USERS)
    sink = sqlite_sink(tmp_path)
    sink.open().close()
    spec = market_spec(database18, sink, look_s=0.3)
    reindex_under_load(database18, spec, spark_session, Reader(read_sqlite(Path(sink.path))))


@pytest.mark.opensearch
def test_no_reader_of_a_search_server_sees_anything_go_back_through_a_reindex(
    database18: Database, spark_session: Session, search_sink: OpenSearchSpec
) -> None:
    create_market(database18, users=_USERS)
    spec = market_spec(database18, search_sink, look_s=0.3)
    reindex_under_load(database18, spec, spark_session, Reader(read_opensearch(search_sink)))
