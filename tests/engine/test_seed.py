"""A seed from its plan to its end: stopped and gone on with, tables rewritten, connections lost. No Spark."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from faulty import FaultySpec
from fix_postgres import Database
from flusso.builder.ranges import read_range
from flusso.builder.read import Built
from flusso.builder.references import token_of
from flusso.catalog import TableName
from flusso.engine import filling, tasks
from flusso.engine import seed as seed_module
from flusso.engine.events import Event, Retrying, SeedAdvanced, SeedFinished, SeedStarted
from flusso.engine.spec import BatchSpec, IndexSpec, PipelineSpec
from flusso.errors import EngineError
from flusso.schema.parse import parse_schema
from flusso.sinks.sqlite import SqliteSpec
from flusso.sinks.stdout import StdoutSpec
from market import create_market, market_schema
from pipelines import assert_exact, market_spec, sqlite_sink
from turns_here import Seed, spec_of_small_ranges

pytestmark = pytest.mark.postgres

USERS = 3000
SOME = 0.7


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn has few of the forty ranges, so that there is something left wherever a seed is stopped."""
    monkeypatch.setattr(filling, "_LARGEST_SHARE", 4)


def _once(when: Callable[[SeedAdvanced], bool], do: Callable[[], object]) -> Callable[[Event], None]:
    """A listener that does something, once, when the seed has come so far."""
    done: list[object] = []

    def listen(event: Event) -> None:
        if isinstance(event, SeedAdvanced) and not done and when(event):
            done.append(event)
            do()

    return listen


def _seed_some(spec: PipelineSpec) -> Seed:
    """Seed some of it, as a process that ends then."""

    def stop() -> None:
        seed.stop()

    seed = Seed(spec, _once(lambda event: event.seeding.share >= SOME, stop))
    seed.run()
    assert not seed.is_finished
    return seed


def _writes(folder: Path) -> list[str]:
    return (folder / "writes").read_text().split()


# Rows go to the other end of their file: what lay in blocks that are written is now in others.
TURNED = """
create index turned on {table} ((-id));
cluster {table} using turned
"""


def _turn_round(database: Database, table: str) -> None:
    database.execute(TURNED.format(table=table))


def test_a_seed_that_was_stopped_goes_on_where_it_was(database: Database, tmp_path: Path) -> None:
    create_market(database, users=USERS)
    spec = spec_of_small_ranges(database, tmp_path)
    first = _seed_some(spec)
    written = len(_writes(tmp_path))
    second = Seed(spec)
    second.run()
    (started,) = second.of(SeedStarted)
    assert started.seeding.place == first.of(SeedAdvanced)[-1].seeding.place
    assert SOME <= started.seeding.share < 1
    assert len(_writes(tmp_path)) == USERS, f"{written} of them before the stop"
    assert second.is_finished
    assert_exact(database, spec)


def test_a_seed_that_had_only_its_last_look_up_left_makes_it_at_the_next_start(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_market(database, users=50)
    database.execute("alter table orders replica identity default")
    spec = market_spec(database, sqlite_sink(tmp_path), keeps_references=True)

    def die(*_: object) -> int:
        raise KeyError

    first = Seed(spec)
    with monkeypatch.context() as patch:
        patch.setattr(seed_module, "settle_due", die)
        with pytest.raises(EngineError, match="a seed failed"):
            first.run()
    # A batch of that process has looked the row up before the range was written.
    [(order,)] = database.execute("delete from orders where id = (select min(id) from orders) returning id")
    (entry,) = first.prepared.ledger.entries
    token = token_of(TableName("public", "orders"), [str(order)])
    with contextlib.closing(entry.destination.sink.open()) as sink:
        sink.remember_tokens(entry.destination.target, [token])
    second = Seed(spec)
    second.run()
    assert second.of(SeedStarted)[0].seeding.share == 1
    assert_exact(database, spec)


def _vacuum_full(database: Database, table: str) -> None:
    with database.connect() as conn:
        conn.execute(f"vacuum full public.{table}".encode())


def _rewrite(database: Database, table: str) -> None:
    """Write every row anew, in its order and without the dead ones between them."""
    database.execute("alter table users alter name type varchar(500)")


@pytest.mark.parametrize(
    "move", [_turn_round, _vacuum_full, _rewrite], ids=["cluster", "vacuum full", "rewriting alter"]
)
def test_rows_moved_across_finished_blocks_while_seeding_are_not_missed(
    database: Database, tmp_path: Path, move: Callable[[Database, str], None]
) -> None:
    create_market(database, users=USERS)
    # Dead rows in the first blocks, into which those behind them move.
    database.execute("delete from users where id < %s", USERS // 3)
    spec = spec_of_small_ranges(database, tmp_path)
    seed = Seed(spec, _once(lambda event: event.seeding.share > 0.2, lambda: move(database, "users_0")))
    seed.run()
    assert_exact(database, spec)
    shares = [event.seeding.share for event in seed.of(SeedAdvanced)]
    assert shares != sorted(shares), "the table that was rewritten has to begin again"


@pytest.mark.parametrize("rewrite", [_turn_round, _vacuum_full], ids=["cluster", "vacuum full"])
def test_a_table_rewritten_while_nobody_runs_begins_again_and_the_others_go_on(
    database: Database, tmp_path: Path, rewrite: Callable[[Database, str], None]
) -> None:
    create_market(database, users=USERS)
    spec = spec_of_small_ranges(database, tmp_path)
    _seed_some(spec)
    written = len(_writes(tmp_path))
    rewrite(database, "users_1")
    Seed(spec).run()
    assert_exact(database, spec)
    again = len(_writes(tmp_path)) - written
    assert USERS - written < again < 0.7 * USERS, "the other one, half of all, was whole"


def test_a_changed_schema_is_seeded_from_the_start(database: Database, tmp_path: Path) -> None:
    create_market(database, users=USERS)
    spec = spec_of_small_ranges(database, tmp_path)
    _seed_some(spec)
    schema = parse_schema("version: 1\ntable: users\nprimary_key: id\nfields:\n  - text: name\n", file="x")
    changed = spec_of_small_ranges(
        database, tmp_path, indexes=(IndexSpec("users", schema, spec.indexes[0].sinks),)
    )
    seed = Seed(changed)
    seed.run()
    assert seed.of(SeedStarted)[0].seeding.done == 0
    assert seed.is_finished


def test_a_lost_slot_seeds_from_the_start(database: Database, tmp_path: Path) -> None:
    create_market(database, users=USERS)
    spec = spec_of_small_ranges(database, tmp_path)
    _seed_some(spec)
    database.execute("select pg_drop_replication_slot(%s)", spec.slot)
    database.execute("delete from users where id = 1; update users set name = 'unseen' where id = 3")
    seed = Seed(spec)
    seed.run()
    assert seed.of(SeedStarted)[0].seeding.done == 0
    assert_exact(database, spec)


def test_a_sink_that_is_added_while_another_is_half_full_is_seeded_from_the_start(
    database: Database, tmp_path: Path
) -> None:
    create_market(database, users=USERS)
    old = spec_of_small_ranges(database, tmp_path / "old")
    new = spec_of_small_ranges(database, tmp_path / "new")
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    _seed_some(old)
    sinks = (old.indexes[0].sinks[0], _named("new", new))
    both = spec_of_small_ranges(
        database, tmp_path / "old", indexes=(IndexSpec("users", market_schema(), sinks),)
    )
    seed = Seed(both)
    seed.run()
    started = {event.sinks: event.seeding.share for event in seed.of(SeedStarted)}
    assert started["new",] == 0
    assert SOME <= started["local",] < 1
    assert len(_writes(tmp_path / "old")) == USERS
    assert_exact(database, old)
    alone = (IndexSpec("users", market_schema(), sinks[1:]),)
    assert_exact(database, spec_of_small_ranges(database, tmp_path, indexes=alone))


def _named(name: str, spec: PipelineSpec) -> FaultySpec:
    import dataclasses

    faulty = spec.indexes[0].sinks[0]
    assert isinstance(faulty, FaultySpec)
    return FaultySpec(dataclasses.replace(faulty.inner, name=name), faulty.folder)


def test_a_reader_that_is_ended_in_the_middle_of_a_range_is_replaced(
    database: Database, tmp_path: Path
) -> None:
    create_market(database, users=USERS)
    spec = spec_of_small_ranges(database, tmp_path, batch=BatchSpec(seed_range_mb=64))
    killed: list[object] = []

    def kill_readers() -> None:
        found = database.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
            "and application_name = 'flusso' and query like 'select t0.%'"
        )
        killed.extend(found)

    sink = _Interrupting(spec, kill_readers, killed)
    seed = Seed(spec)
    with sink:
        seed.run()
    assert killed
    assert seed.of(Retrying)
    assert_exact(database, spec)


class _Interrupting:
    """While open, the first write of a seed that finds a reader in the middle of a range does something."""

    def __init__(self, spec: PipelineSpec, do: Callable[[], object], done: list[object]) -> None:
        import faulty

        self._module, self._do, self._done = faulty, do, done
        self._write = faulty.FaultySink.write

    def __enter__(self) -> None:
        write, do, done = self._write, self._do, self._done

        def interrupted(sink: object, *given: object, **named: object) -> object:
            if not done:
                do()
            return write(sink, *given, **named)  # type: ignore[arg-type]

        self._module.FaultySink.write = interrupted  # type: ignore[method-assign,assignment]

    def __exit__(self, *_: object) -> None:
        self._module.FaultySink.write = self._write  # type: ignore[method-assign]


def test_no_transaction_is_open_between_two_ranges(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_market(database, users=USERS)
    spec = spec_of_small_ranges(database, tmp_path)
    found: list[tuple[object, ...]] = []
    looks: list[object] = []

    def look(*_: object) -> None:
        looks.append(_)
        found.extend(
            database.execute(
                "select pid, state, query from pg_stat_activity where datname = current_database() "
                "and application_name = 'flusso' and (backend_xmin is not null or xact_start is not null)"
            )
        )

    def read_after_a_look(*given: Any) -> Iterator[list[Built]]:
        look()
        return read_range(*given)

    monkeypatch.setattr(tasks, "read_range", read_after_a_look)
    seed = Seed(spec, look)
    seed.run()
    assert len(looks) > 3 * len(seed.of(SeedAdvanced)), "most of them are in the middle of a turn"
    assert found == []


def test_limits_that_are_set_for_the_role_do_not_end_a_seed(database: Database, tmp_path: Path) -> None:
    create_market(database, users=USERS)
    role = database.execute("select current_user")[0][0]
    database.execute(
        f"""
        alter role "{role}" in database "{database.name}" set statement_timeout = '1ms';
        alter role "{role}" in database "{database.name}" set idle_in_transaction_session_timeout = '1ms'
        """
    )
    with pytest.raises(psycopg.Error):
        database.execute("select pg_sleep(1)")
    spec = spec_of_small_ranges(database, tmp_path)
    seed = Seed(spec)
    seed.run()
    assert seed.is_finished
    assert not seed.of(Retrying)
    assert len(_writes(tmp_path)) == USERS


def test_a_sink_that_lost_what_it_remembered_is_filled_into_a_generation_of_its_own(
    database: Database, tmp_path: Path
) -> None:
    create_market(database, users=USERS)
    spec = spec_of_small_ranges(database, tmp_path)
    Seed(spec).run()
    with contextlib.closing(sqlite3.connect(tmp_path / "index.db")) as file, file:
        file.execute("delete from states")
    database.execute("select pg_drop_replication_slot(%s)", spec.slot)
    database.execute("delete from users where id = 1")
    Seed(spec).run()
    assert_exact(database, spec)


@pytest.mark.parametrize("kinds", [("sqlite", "sqlite"), ("stdout",)], ids=" and ".join)
def test_each_document_counts_once_whatever_the_number_and_kind_of_sinks(
    database: Database, tmp_path: Path, kinds: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    create_market(database, users=USERS)
    sinks = tuple(
        SqliteSpec(f"{kind}{at}", str(tmp_path / f"{at}.db")) if kind == "sqlite" else StdoutSpec("out")
        for at, kind in enumerate(kinds)
    )
    spec = market_spec(database, sinks[0], indexes=(IndexSpec("users", market_schema(), sinks),))
    seed = Seed(spec)
    seed.run()
    assert seed.of(SeedAdvanced)[-1].seeding.documents == USERS
    assert [event.documents for event in seed.of(SeedFinished)] == [USERS]
    assert len(capfd.readouterr().out.splitlines()) == USERS * kinds.count("stdout")
