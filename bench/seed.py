"""How fast an index is filled, beside a plain bulk load of the same ready JSON into the same server.

The plain load reads the documents beforehand, cuts them into bodies of a megabyte and sends these over one
to four connections, each in a thread of its own, into an index with the same mapping and settings. The best
of these and the seed then take turns, because the machine itself is faster in one minute than in another.
Both sides end with the refresh that makes all searchable. Of flusso's time only the seed itself counts, from
its own log. It begins when the stream runs: what comes before is told, not counted.

On a small machine all share the cores, and whatever reading and building take, the search server lacks. So
both are also measured with the server on cores of its own, as it is where it has a machine of its own.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from urllib.parse import urlsplit

from bench.apart import has_cores, search_apart
from bench.report import Row, thousands
from bench.stage import INDEX, Stage, drop_slot
from flusso.builder.plan import IndexPlan, compile_index
from flusso.builder.ranges import plan_ranges, read_range
from flusso.postgres.connect import connect
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import IndexSchema, tables_of
from flusso.schema.parse import parse_schema
from flusso.sinks.base import IndexTarget
from flusso.sinks.search.opensearch import OpenSearchSpec

_AIM = 0.85
_BODY_BYTES = 1_000_000
_CONNECTIONS = (1, 2, 3, 4)
_PREFIX = "raw_"
_TARGET = IndexTarget(INDEX, "0" * 64, 1)


def measure(stage: Stage) -> Iterator[Row]:
    """Find the best number of connections for a plain load, then take turns with it; compare the medians."""
    schema = parse_schema(stage.schema_file.read_text(), file=str(stage.schema_file))
    bodies, read_rate = _read_bodies(stage, schema)
    _load(stage, schema, bodies, 2)  # the server's JVM gets warm for both
    tried = {connections: _load(stage, schema, bodies, connections) for connections in _CONNECTIONS}
    best = max(tried, key=lambda connections: tried[connections])
    loads: list[float] = []
    seeds: list[_Rates] = []
    for _ in range(stage.sizes.seeds):
        loads.append(_load(stage, schema, bodies, best))
        seeds.append(_seed(stage))
    raw = median(loads)
    whole, warm = median(rates.whole for rates in seeds), median(rates.warm for rates in seeds)
    first = ", ".join(f"{thousands(rate)} over {connections}" for connections, rate in tried.items())
    turns = ", ".join(
        f"{thousands(load)} and {thousands(rates.whole)}" for load, rates in zip(loads, seeds, strict=True)
    )
    yield Row(
        "whole seed of a process just started ÷ bulk load of ready JSON",
        f"{whole / raw:.2f} ({thousands(whole)} documents/s)",
        f"≥ {_AIM}",
        whole / raw >= _AIM,
        f"medians of turns, load and seed: {turns}; before, loads gave {first} connections; "
        f"reading alone from Postgres, one connection: {thousands(read_rate)} documents/s",
    )
    yield Row(
        "the same after its first turn",
        f"{warm / raw:.2f} ({thousands(warm)} documents/s)",
        detail=f"from the process's start to its end {median(rates.process_s for rates in seeds):.0f} s",
    )


def measure_apart(stage: Stage) -> Iterator[Row]:
    """Take turns once more, with the search server on cores of its own."""
    if not has_cores():
        return
    schema = parse_schema(stage.schema_file.read_text(), file=str(stage.schema_file))
    bodies, _ = _read_bodies(stage, schema)
    loads: list[float] = []
    seeds: list[float] = []
    with search_apart(stage):
        for _ in range(stage.sizes.seeds):
            loads.append(max(_load(stage, schema, bodies, connections) for connections in _CONNECTIONS[:2]))
            seeds.append(_seed(stage, master="local[2]").whole)
    raw, whole = median(loads), median(seeds)
    turns = ", ".join(
        f"{thousands(load)} and {thousands(seed)}" for load, seed in zip(loads, seeds, strict=True)
    )
    yield Row(
        "whole seed ÷ bulk load, the search server on cores of its own",
        f"{whole / raw:.2f} ({thousands(whole)} documents/s)",
        f"≥ {_AIM}",
        whole / raw >= _AIM,
        f"medians of turns, load and seed: {turns}; half of the cores each",
    )


def _read_bodies(stage: Stage, schema: IndexSchema) -> tuple[list[bytes], float]:
    """Put the documents into bulk bodies; give also how fast they could be read."""
    bodies: list[bytes] = []
    lines: list[bytes] = []
    size = count = 0
    spent_s = 0.0
    with connect(stage.dsn) as conn:
        plan: IndexPlan = compile_index(INDEX, schema, read_catalog(conn, tables_of(schema)))
        for block_range in plan_ranges(conn, plan, 8):
            chunks = read_range(conn, plan, block_range)
            while True:
                started_s = time.perf_counter()
                chunk = next(chunks, None)
                spent_s += time.perf_counter() - started_s
                if chunk is None:
                    break
                count += len(chunk)
                for built in chunk:
                    assert built.body is not None
                    lines += (b'{"index":{"_id":"%s"}}\n' % built.id.encode(), built.body, b"\n")
                    size += len(lines[-3]) + len(built.body) + 1
                    if size >= _BODY_BYTES:
                        bodies.append(b"".join(lines))
                        lines, size = [], 0
    if lines:
        bodies.append(b"".join(lines))
    return bodies, count / spent_s


def _load(stage: Stage, schema: IndexSchema, bodies: list[bytes], connections: int) -> float:
    """Load all bodies over so many connections; give documents per second."""
    sink = OpenSearchSpec("raw", (stage.search.url,), prefix=_PREFIX, number_of_replicas=0).open()
    try:
        sink.ensure(_TARGET, schema)
    finally:
        sink.close()
    name = f"{_PREFIX}{INDEX}_{'0' * 12}_1"
    parts = [bodies[start::connections] for start in range(connections)]
    with ThreadPoolExecutor(connections) as senders:
        started_s = time.perf_counter()
        list(senders.map(_send, [stage.search.url] * connections, [name] * connections, parts))
        stage.search.request("POST", f"/{name}/_refresh")
        seconds = time.perf_counter() - started_s
    found = stage.search.count(name)
    if found != stage.sizes.users:
        raise RuntimeError(f"the plain load left {found} of {stage.sizes.users} documents")
    stage.search.delete(f"{_PREFIX}*")
    return found / seconds


def _send(url: str, index: str, bodies: list[bytes]) -> None:
    parts = urlsplit(url)
    assert parts.hostname is not None
    conn = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    for body in bodies:
        headers = {"content-type": "application/x-ndjson"}
        conn.request("POST", f"/{index}/_bulk?filter_path=errors", body, headers)
        answer = conn.getresponse().read()
        if answer != b'{"errors":false}':
            raise RuntimeError(f"a bulk request failed: {answer[:300]!r}")
    conn.close()


@dataclass(frozen=True, slots=True)
class _Rates:
    """Documents per second of one seed: from its start to its end, and after its first turn."""

    whole: float
    warm: float
    process_s: float


def _seed(stage: Stage, *, master: str | None = None) -> _Rates:
    """Let flusso fill an index of its own, once."""
    prefix = "seed_"
    started_s = time.perf_counter()
    pipeline = stage.start("--once", "--slot", prefix, "--index-prefix", prefix, master=master)
    try:
        pipeline.wait_until(lambda: pipeline.process.poll() is not None, "the seed to end")
        process_s = time.perf_counter() - started_s
    finally:
        pipeline.stop()
    done = pipeline.fields("seed finished")[-1]
    if int(done["documents"]) != stage.sizes.users:
        raise RuntimeError(f"the seed wrote {done['documents']} of {stage.sizes.users} documents")
    stage.search.delete(f"{prefix}*")
    with stage.connect() as conn:
        drop_slot(conn, prefix)
    count, seconds = int(done["documents"]), float(done["seconds"])
    first = pipeline.fields("seed advanced")[0]
    cold = int(first["documents"])
    warm = (count - cold) / (seconds - cold / float(first["docs_per_s"]))
    return _Rates(count / seconds, warm, process_s)
