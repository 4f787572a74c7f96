"""Read all ranges of a table in a process of its own, and print how much memory that took."""

from __future__ import annotations

import resource
import sys

from flusso.builder.plan import compile_index
from flusso.builder.ranges import plan_ranges, read_range
from flusso.postgres.connect import Dsn, connect
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of
from flusso.schema.parse import parse_schema


def main(dsn: str, schema_text: str) -> None:
    schema = parse_schema(schema_text, file="large.schema.yml")
    with connect(Dsn(dsn)) as conn:
        plan = compile_index("large", schema, read_catalog(conn, tables_of(schema)))
        before, count, size = _peak_mb(), 0, 0
        for block_range in plan_ranges(conn, plan, 64):
            for chunk in read_range(conn, plan, block_range):
                count += len(chunk)
                size += sum(len(built.body or b"") for built in chunk)
    print(count, size // 1_000_000, _peak_mb() - before)


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
