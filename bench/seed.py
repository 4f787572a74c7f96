"""How fast an index is filled, beside a plain bulk load of the same ready JSON into the same server.

The plain load reads the documents beforehand, cuts them into bodies of a megabyte and sends these over one
to four connections, each a process of its own, into an index with the same mapping and settings. Both sides
end with the refresh that makes all searchable. Of flusso's time only the seed itself counts, from its own
log; starting Spark does not, but cold Python workers and a cold JVM do.
"""

from __future__ import annotations

import http.client
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from bench.report import Row, thousands
from bench.stage import INDEX, Stage, drop_slot
from flusso.builder.plan import IndexPlan, compile_index
from flusso.builder.read import plan_ranges, read_range
from flusso.postgres.connect import connect
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import IndexSchema, tables_of
from flusso.schema.parse import parse_schema
from flusso.sinks.base import IndexTarget
from flusso.sinks.search.opensearch import OpenSearchSpec

_AIM = 0.7
_BODY_BYTES = 1_000_000
_CONNECTIONS = (1, 2, 3, 4)
_PREFIX = "raw_"
_TARGET = IndexTarget(INDEX, "0" * 64, 1)


def measure(stage: Stage) -> Iterator[Row]:
    """Alternate plain loads and seeds; compare the best of each."""
    schema = parse_schema(stage.schema_file.read_text(), file=str(stage.schema_file))
    bodies, read_rate = _read_bodies(stage, schema)
    _load(stage, schema, bodies, 2)  # the server's JVM gets warm for both
    raw = {connections: _load(stage, schema, bodies, connections) for connections in _CONNECTIONS}
    seeds = [_seed(stage, 1)]
    best = max(raw, key=lambda connections: raw[connections])
    raw[best] = max(raw[best], _load(stage, schema, bodies, best))
    seeds.append(_seed(stage, 2))
    ratio = max(seeds) / raw[best]
    loads = ", ".join(f"{thousands(rate)} over {connections}" for connections, rate in raw.items())
    yield Row(
        "seed ÷ bulk load of ready JSON",
        f"{ratio:.2f} ({thousands(max(seeds))} documents/s)",
        f"≥ {_AIM}",
        ratio >= _AIM,
        f"seeds {' and '.join(map(thousands, seeds))} documents/s; plain loads {loads} connections; "
        f"reading alone from Postgres, one connection: {thousands(read_rate)} documents/s",
    )


def _read_bodies(stage: Stage, schema: IndexSchema) -> tuple[list[Path], float]:
    """Put the documents into files as bulk bodies; give also how fast they could be read."""
    bodies: list[Path] = []
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
                        bodies.append(_keep(stage.folder, len(bodies), lines))
                        lines, size = [], 0
    if lines:
        bodies.append(_keep(stage.folder, len(bodies), lines))
    return bodies, count / spent_s


def _keep(folder: Path, number: int, lines: list[bytes]) -> Path:
    path = folder / f"body-{number}"
    path.write_bytes(b"".join(lines))
    return path


def _load(stage: Stage, schema: IndexSchema, bodies: list[Path], connections: int) -> float:
    """Load all bodies over so many connections; give documents per second."""
    sink = OpenSearchSpec("raw", (stage.search.url,), prefix=_PREFIX, number_of_replicas=0).open()
    try:
        sink.ensure(_TARGET, schema)
    finally:
        sink.close()
    name = f"{_PREFIX}{INDEX}_{'0' * 12}_1"
    parts = [bodies[start::connections] for start in range(connections)]
    with ProcessPoolExecutor(connections, mp_context=multiprocessing.get_context("spawn")) as senders:
        list(senders.map(_send, [stage.search.url] * connections, [name] * connections, [[]] * connections))
        started_s = time.perf_counter()
        list(senders.map(_send, [stage.search.url] * connections, [name] * connections, parts))
        stage.search.request("POST", f"/{name}/_refresh")
        seconds = time.perf_counter() - started_s
    found = stage.search.count(name)
    if found != stage.sizes.users:
        raise RuntimeError(f"the plain load left {found} of {stage.sizes.users} documents")
    stage.search.delete(f"{_PREFIX}*")
    return found / seconds


def _send(url: str, index: str, bodies: list[Path]) -> None:
    parts = urlsplit(url)
    assert parts.hostname is not None
    conn = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    for path in bodies:
        headers = {"content-type": "application/x-ndjson"}
        conn.request("POST", f"/{index}/_bulk?filter_path=errors", path.read_bytes(), headers)
        answer = conn.getresponse().read()
        if answer != b'{"errors":false}':
            raise RuntimeError(f"a bulk request failed: {answer[:300]!r}")
    conn.close()


def _seed(stage: Stage, number: int) -> float:
    """Let flusso fill an index of its own, once; give documents per second."""
    prefix = f"seed{number}_"
    pipeline = stage.start("--once", "--slot", prefix, "--index-prefix", prefix)
    try:
        pipeline.wait_until(lambda: pipeline.process.poll() is not None, "the seed to end")
    finally:
        pipeline.stop()
    done = pipeline.fields("seed finished")[-1]
    if int(done["documents"]) != stage.sizes.users:
        raise RuntimeError(f"the seed wrote {done['documents']} of {stage.sizes.users} documents")
    stage.search.delete(f"{prefix}*")
    with stage.connect() as conn:
        drop_slot(conn, prefix)
    return int(done["documents"]) / float(done["seconds"])
