"""`python -m bench`: measure everything in one run and print one table.

python -m bench                          all of it, at full size: about half an hour
python -m bench --quick                  small sizes, to try the harness; its figures mean nothing
python -m bench --only seed,live         some parts
python -m bench --write                  keep the table in docs/benchmarks.md
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from bench import capture, idle, live, memory, references, seed, verify, where
from bench.report import Row, render_result, render_table, write_result
from bench.stage import QUICK, Sizes, Stage, open_stage

_PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
PARTS: dict[str, Callable[[Stage], Iterator[Row]]] = {
    "capture": capture.measure,
    "seed": seed.measure,
    "apart": seed.measure_apart,
    "where": where.measure,
    "verify": verify.measure,
    "live": live.measure,
    "idle": idle.measure,
    "seeding": live.measure_seeding,
    "memory": memory.measure,
    "references": references.measure,
}


def main() -> None:
    """Measure what was asked for."""
    options = _parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are removed then too
    rows: list[Row] = []
    with open_stage(_sizes(options)) as stage:
        machine = describe_machine(stage)
        _say(machine)
        for part in options.only:
            for row in PARTS[part](stage):
                _say(f"{part}: {row.measure}: {row.result} ({row.detail})")
                rows.append(row)
    print(render_table(rows))
    result = render_result(
        rows, datetime.now(UTC).strftime("%Y-%m-%d"), machine, " ".join(["python -m bench", *sys.argv[1:]])
    )
    for row in rows:
        if row.detail:
            print(f"  {row.measure}: {row.detail}")
    if options.write:
        write_result(_PAGE, result)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure flusso on this machine.")
    parser.add_argument("--users", type=int, help="documents in the index")
    parser.add_argument("--changes", type=int, help="changes in the largest transaction")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the harness")
    parser.add_argument("--only", type=_parts, default=list(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--write", action="store_true", help="keep the table in docs/benchmarks.md")
    return parser.parse_args()


def _parts(text: str) -> list[str]:
    chosen = text.split(",")
    unknown = [part for part in chosen if part not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no part {', '.join(unknown)}")
    return [part for part in PARTS if part in chosen]


def _sizes(options: argparse.Namespace) -> Sizes:
    sizes = QUICK if options.quick else Sizes()
    users = options.users or sizes.users
    changes = options.changes or sizes.changes
    return replace(sizes, users=users, changes=changes, transaction=min(sizes.transaction, users))


def describe_machine(stage: Stage) -> str:
    """Say in a line where this was measured."""
    with stage.connect() as conn:
        row = conn.execute("select split_part(current_setting('server_version'), ' ', 1)").fetchone()
    assert row is not None
    memory_gb = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores ({_processor()}), {memory_gb:.0f} GB, "
        f"{platform.system()} {platform.release()}; Python {platform.python_version()}, "
        f"PySpark {version('pyspark')}, Postgres {row[0]}, "
        f"OpenSearch {stage.search.version()} with 2 GB; {stage.sizes.users:,} users"
    )


def _processor() -> str:
    found = Path("/proc/cpuinfo")
    if found.exists():
        for line in found.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
