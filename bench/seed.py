"""How fast an index is filled, beside a plain bulk load of the same ready JSON into the same server.

The plain load reads the documents beforehand, cuts them into bodies of a megabyte and sends these over one
to four connections, each in a thread of its own, into an index with the same mapping and settings. The best
of these and the seed then take turns, because the machine itself is faster in one minute than in another:
each seed stands between two loads and is compared with their mean, and the median of these ratios counts.
Both sides end with the refresh that makes all searchable, and flusso's with its readers moved. Of its time
only the seed itself counts, from its own log. It begins when the stream runs: what comes before is told, not
counted.

On a small machine all share the cores, and whatever reading and building take, the search server lacks. So
both are also measured with the server on cores of its own, as it is where it has a machine of its own.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from statistics import harmonic_mean, median
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
_TURNS_APART = 3
_PREFIX = "raw_"
_TARGET = IndexTarget(INDEX, "0" * 64, 1)


def measure(stage: Stage) -> Iterator[Row]:
    """Find the best number of connections for a plain load, then take turns with it."""
    load = _prepare(stage)
    found = _take_turns(stage, load, stage.sizes.seeds)
    process_s = median(seed.process_s for seed in found.seeds)
    yield Row(
        "whole seed of a process just started ÷ bulk load of ready JSON",
        f"{found.ratio:.2f} ({thousands(found.rate)} documents/s)",
        f"≥ {_AIM}",
        found.ratio >= _AIM,
        f"{found.turns}; before, loads gave {found.tried} connections; "
        f"reading alone from Postgres, one connection: {thousands(load.read_rate)} documents/s; "
        f"from the process's start to its end {process_s:.0f} s",
    )


def measure_apart(stage: Stage) -> Iterator[Row]:
    """The same with the search server on cores of its own, where there are enough to share out."""
    if not has_cores():
        return
    load = _prepare(stage)
    with search_apart(stage):
        found = _take_turns(stage, load, min(_TURNS_APART, stage.sizes.seeds), master="local[2]")
    yield Row(
        "whole seed ÷ bulk load, the search server on cores of its own",
        f"{found.ratio:.2f} ({thousands(found.rate)} documents/s)",
        f"≥ {_AIM}",
        found.ratio >= _AIM,
        f"{found.turns}; before, loads gave {found.tried} connections; half of the cores for the server",
    )


@dataclass(frozen=True, slots=True)
class _Load:
    """The documents, ready to be sent."""

    schema: IndexSchema
    bodies: list[bytes]
    read_rate: float
    """How many documents a second could be read."""


@dataclass(frozen=True, slots=True)
class _Seed:
    """How fast one seed was."""

    rate: float
    """Documents per second."""
    process_s: float
    """How long the whole process took."""


@dataclass(frozen=True, slots=True)
class _Turns:
    """What plain loads and seeds gave, one after the other."""

    tried: str
    loads: list[float]
    """One more than seeds: each seed stands between two."""
    seeds: list[_Seed]

    @property
    def rate(self) -> float:
        return median(seed.rate for seed in self.seeds)

    @property
    def ratios(self) -> list[float]:
        """Compare each seed with the loads before and after it, all of the same documents."""
        around = (harmonic_mean(pair) for pair in pairwise(self.loads))
        return [seed.rate / load for seed, load in zip(self.seeds, around, strict=True)]

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def turns(self) -> str:
        loads = ", ".join(map(thousands, self.loads))
        seeds = ", ".join(thousands(seed.rate) for seed in self.seeds)
        told = ", ".join(f"{ratio:.2f}" for ratio in self.ratios)
        return f"median of {told}: loads {loads}, and between them seeds {seeds}"


def _prepare(stage: Stage) -> _Load:
    schema = parse_schema(stage.schema_file.read_text(), file=str(stage.schema_file))
    return _Load(schema, *_read_bodies(stage, schema))


def _take_turns(stage: Stage, load: _Load, count: int, *, master: str | None = None) -> _Turns:
    _send_all(stage, load, 2)
    tried: dict[int, float] = {}
    for connections in _CONNECTIONS:
        tried[connections] = _send_all(stage, load, connections)
        _seed(stage, master)  # the server's JVM gets as warm for one as for the other
    best = max(tried, key=lambda connections: tried[connections])
    told = ", ".join(f"{thousands(rate)} over {connections}" for connections, rate in tried.items())
    loads = [_send_all(stage, load, best)]
    seeds: list[_Seed] = []
    for _ in range(count):
        seeds.append(_seed(stage, master))
        loads.append(_send_all(stage, load, best))
    return _Turns(told, loads, seeds)


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


def _send_all(stage: Stage, load: _Load, connections: int) -> float:
    """Load all bodies over so many connections; give documents per second."""
    sink = OpenSearchSpec("raw", (stage.search.url,), prefix=_PREFIX, number_of_replicas=0).open()
    try:
        sink.ensure(_TARGET, load.schema)
    finally:
        sink.close()
    name = f"{_PREFIX}{INDEX}_{'0' * 12}_1"
    parts = [load.bodies[start::connections] for start in range(connections)]
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


def _seed(stage: Stage, master: str | None) -> _Seed:
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
    seconds = pipeline.seconds_between("seed started", "readers moved")
    return _Seed(int(done["documents"]) / seconds, process_s)
