"""What exactness costs: `replica identity full` beside references, for live changes, the index and the WAL.

The same changes twice, each time in a generation that was just filled: first the WAL carries the old links of
orders, then their table has the default identity and documents keep references instead. Every update of an
order is blind then. An update of a user is not: it only writes the references of its document as well.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from itertools import count
from statistics import median

from bench.flusso import Pipeline, call_flusso
from bench.live import change_one, change_transaction, spread, until
from bench.report import Row, thousands
from bench.stage import INDEX, Stage
from flusso.postgres.connect import Connection

_POLL_S = 0.004
_PAUSE_S = (0.1, 0.3)
_WIDE_COLUMNS, _WIDE_ROWS = 30, 5_000

_marks = count(1)
_random = random.Random(2)


def measure(stage: Stage) -> Iterator[Row]:
    """Measure with the full identity, then with references. Leaves the table as it was."""
    with stage.connect() as conn:
        pipeline = stage.following()
        _reindex(stage, pipeline)
        plain = _bytes(stage, "")
        yield from _live(stage, pipeline, conn, "full identity")
        stage.stop_following()
        conn.execute("alter table orders replica identity default")
        pipeline = stage.following()
        # The generation without references serves until the one with them is filled.
        pipeline.wait_for("readers moved")
        yield _size(stage, plain)
        yield from _live(stage, pipeline, conn, "references")
        stage.stop_following()
        conn.execute("alter table orders replica identity full")
        yield _wal(conn)


def _reindex(stage: Stage, pipeline: Pipeline) -> None:
    """Let readers move to a new generation: the one there is may have had many changes."""
    before = len(pipeline.fields("readers moved"))
    call_flusso(stage.folder, {"DATABASE_URL": stage.dsn.text}, "reindex", INDEX)
    pipeline.wait_until(lambda: len(pipeline.fields("readers moved")) > before, "the new generation")


def _size(stage: Stage, plain: int) -> Row:
    documents, references = _bytes(stage, ""), _bytes(stage, "_refs")
    return Row(
        f"index of {stage.sizes.users:,} documents, without and with references",
        f"{plain / 1e6:.1f} MB, {documents / 1e6:.1f} + {references / 1e6:.1f} MB",
        detail=f"three references a document: {references / stage.sizes.users:.0f} bytes; "
        "both just filled, each merged into one segment",
    )


def _live(stage: Stage, pipeline: Pipeline, conn: Connection, how: str) -> Iterator[Row]:
    """Measure changes of orders and of users in turns, so that both meet the same mood of the machine."""
    size = min(stage.sizes.transaction, stage.sizes.users)
    for _ in range(stage.sizes.warm_up):
        _change_one(stage, pipeline, conn)
    orders: list[float] = []
    users: list[float] = []
    for _ in range(stage.sizes.transactions):
        orders.append(_change_many(stage, pipeline, conn, size))
        users.append(change_transaction(stage, pipeline, conn))
    yield _rate(f"one transaction of {size:,} orders, all searchable, {how}", orders)
    yield _rate(f"one transaction of {size:,} users, all searchable, {how}", users)
    change = {"order": _change_one, "user": change_one}
    waits: dict[str, list[float]] = {row: [] for row in change}
    for _ in range(stage.sizes.samples):
        for row, change_ in change.items():
            time.sleep(_random.uniform(*_PAUSE_S))
            waits[row].append(change_(stage, pipeline, conn))
    for row, found in waits.items():
        yield Row(f"commit to searchable, one {row}, warm and idle, {how}", spread(found))


def _rate(measure: str, rates: list[float]) -> Row:
    detail = f"median of {', '.join(map(thousands, rates))}"
    return Row(measure, f"{thousands(median(rates))} documents/s", detail=detail)


def _change_one(stage: Stage, pipeline: Pipeline, conn: Connection) -> float:
    mark = f"order{next(_marks)}"
    order = _random.randint(1, 3 * stage.sizes.users)
    conn.execute("update orders set status = %s where id = %s", (mark, order))
    return until(pipeline, lambda: _find(stage, mark) == 1, _POLL_S)


def _change_many(stage: Stage, pipeline: Pipeline, conn: Connection, size: int) -> float:
    mark = f"orders{next(_marks)}"
    # So many orders that follow each other are of as many users.
    conn.execute("update orders set status = %s where id <= %s", (mark, size))
    seconds = until(pipeline, lambda: _find(stage, mark) == size, 0.02)
    conn.execute("vacuum orders")
    return size / seconds


def _find(stage: Stage, mark: str) -> int:
    """Count the users that have an order with the mark."""
    query = {"nested": {"path": "orders", "query": {"term": {"orders.status": mark}}}}
    body = json.dumps({"query": query, "size": 0, "track_total_hits": True}).encode()
    path = f"/{INDEX}/_search?filter_path=hits.total.value"
    return int(stage.search.request("POST", path, body)["hits"]["total"]["value"])


def _bytes(stage: Stage, suffix: str) -> int:
    """Measure the newest generation, or its references, merged as a search server would in time."""
    pattern = f"{INDEX}_*"
    found = stage.search.request("GET", f"/{pattern}/_stats/store?expand_wildcards=all")["indices"]
    names = [name for name in found if name.endswith("_refs") is bool(suffix)]
    name = max(names, key=lambda name: int(name.removesuffix("_refs").rpartition("_")[2]))
    stage.search.request("POST", f"/{name}/_forcemerge?max_num_segments=1")
    stats = stage.search.request("GET", f"/{name}/_stats/store")
    return int(stats["indices"][name]["primaries"]["store"]["size_in_bytes"])


def _wal(conn: Connection) -> Row:
    """Measure the WAL of an update of one column of a wide row, without images of whole pages."""
    columns = ", ".join(f"c{n} text not null default repeat('x', 100)" for n in range(_WIDE_COLUMNS))
    conn.execute(f"create table wide (id int primary key, n int not null default 0, {columns})".encode())
    conn.execute("insert into wide (id) select generate_series(1, %s)", (_WIDE_ROWS,))
    try:
        sizes = {identity: _wal_of(conn, identity) for identity in ("default", "full")}
    finally:
        conn.execute("drop table wide")
    return Row(
        f"WAL of an update of one column, a row of {_WIDE_COLUMNS * 100:,} bytes, default and full identity",
        f"{sizes['default']:.0f} and {sizes['full']:.0f} bytes",
        detail=f"{_WIDE_ROWS:,} rows in one transaction, each for the second time since a checkpoint",
    )


def _wal_of(conn: Connection, identity: str) -> float:
    conn.execute(f"alter table wide replica identity {identity}".encode())
    conn.execute("vacuum full wide")
    conn.execute("checkpoint")
    conn.execute("update wide set n = n + 1")
    conn.execute("vacuum wide")
    before = conn.execute("select pg_current_wal_insert_lsn()").fetchone()
    conn.execute("update wide set n = n + 1")
    row = conn.execute("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)", before).fetchone()
    assert row is not None
    return float(row[0]) / _WIDE_ROWS
