"""Where the time of a seed goes, and what more executors give.

Reading, building and sending are first done one at a time by this process, so that each shows its own cost.
Then flusso seeds, once for each number of turns side by side, and the CPU seconds of every process between
the first line of the seed and its last are told apart: flusso's own, Postgres's, the search server's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from bench.flusso import Pipeline
from bench.idle import cpu_of, cpu_seconds
from bench.report import Row, thousands
from bench.stage import INDEX, Stage, drop_slot
from flusso.builder.plan import compile_index
from flusso.builder.ranges import plan_ranges, read_range
from flusso.builder.read import Built
from flusso.document import Write
from flusso.postgres.connect import connect
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of
from flusso.schema.parse import parse_schema
from flusso.sinks.search.bulk import batches

_TURNS = (1, 2)
_RANGE_MB = 2
_LOOK_S = 0.25
_BODY_BYTES = 10 * 1024 * 1024


def measure(stage: Stage) -> Iterator[Row]:
    """Take a seed apart, then let it run as a whole, with one turn at a time and with two."""
    alone = _alone(stage)
    runs = {turns: _seed(stage, turns) for turns in _TURNS}
    first = runs[_TURNS[0]]
    yield Row(
        "where the CPU of a seed goes",
        f"search server {first.cpu['search server'] / first.total:.0%} of {first.total:.1f} s",
        detail=", ".join(f"{who} {seconds:.1f} s" for who, seconds in first.cpu.items())
        + f"; in {first.seconds:.1f} s on {psutil.cpu_count()} cores; one at a time: {alone}",
    )
    yield Row(
        f"seed with {_TURNS[1]} turns side by side ÷ with {_TURNS[0]}",
        f"{runs[_TURNS[1]].rate / first.rate:.2f}",
        detail="; ".join(
            f"{turns}: {thousands(run.rate)} documents/s, search server busy with "
            f"{run.cpu['search server'] / run.seconds:.2f} cores, all with {run.total / run.seconds:.2f}"
            for turns, run in runs.items()
        ),
    )


@dataclass(frozen=True, slots=True)
class _Run:
    seconds: float
    documents: int
    cpu: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.cpu.values())

    @property
    def rate(self) -> float:
        return self.documents / self.seconds


def _alone(stage: Stage) -> str:
    """Read all documents, then put them into bodies, each as a process does that does nothing else."""
    schema = parse_schema(stage.schema_file.read_text(), file=str(stage.schema_file))
    chunks: list[list[Built]] = []
    with connect(stage.dsn) as conn:
        plan = compile_index(INDEX, schema, read_catalog(conn, tables_of(schema)))
        ours, theirs = time.process_time(), _postgres_s(stage)
        for block_range in plan_ranges(conn, plan, _RANGE_MB):
            chunks += read_range(conn, plan, block_range)
        read_s, postgres_s = time.process_time() - ours, _postgres_s(stage) - theirs
    ours = time.process_time()
    size = 0
    for chunk in chunks:
        writes = [Write(built.id, 1, built.body) for built in chunk]
        made = batches(writes, max_count=len(writes), max_bytes=_BODY_BYTES)
        size += sum(len(batch.body) for batch in made)
    build_s = time.process_time() - ours
    return (
        f"the SELECTs {postgres_s:.1f} s in Postgres, reading their rows {read_s:.1f} s, "
        f"making bodies of {size / 1e6:.0f} MB {build_s:.1f} s"
    )


def _seed(stage: Stage, turns: int) -> _Run:
    """Seed with so many turns at a time; one slot more is the stream's."""
    prefix = f"where{turns}_"
    arguments = ("--once", "--slot", prefix, "--index-prefix", prefix)
    pipeline = stage.start(*arguments, master=f"local[{turns + 1}]")
    try:
        pipeline.wait_for("seed started")
        used = [_cpu(stage, pipeline)]
        looked_s = time.monotonic()

        def look() -> bool:
            nonlocal looked_s
            if time.monotonic() - looked_s >= _LOOK_S:
                looked_s = time.monotonic()
                used.append(_cpu(stage, pipeline))
            return bool(pipeline.fields("readers moved"))

        pipeline.wait_until(look, "the seed")
        pipeline.wait_until(lambda: pipeline.process.poll() is not None, "the end")
    finally:
        pipeline.stop()
    done = pipeline.fields("seed finished")[-1]
    stage.search.delete(f"{prefix}*")
    with stage.connect() as conn:
        drop_slot(conn, prefix)
    seconds = pipeline.seconds_between("seed started", "readers moved")
    cpu = {who: max(each[who] for each in used) - used[0][who] for who in used[0]}
    return _Run(seconds, int(done["documents"]), cpu)


def _cpu(stage: Stage, pipeline: Pipeline) -> dict[str, float]:
    return {"search server": _search_s(stage), "Postgres": _postgres_s(stage), **cpu_seconds(pipeline)}


def _search_s(stage: Stage) -> float:
    found = stage.search.request("GET", "/_nodes/stats/process?filter_path=nodes.*.process.cpu")
    return sum(node["process"]["cpu"]["total_in_millis"] for node in found["nodes"].values()) / 1000


def _postgres_s(stage: Stage) -> float:
    server = psutil.Process(stage.postgres_pid())
    return sum(cpu_of(process) for process in (server, *server.children(recursive=True)))
