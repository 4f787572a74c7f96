"""The second tier: `flusso run` as real processes on real Spark into real sinks, with harm done to all of it.

Writers run freely, each in a thread of its own. Meanwhile flusso is killed, paused and restarted, its
walsender is terminated, commits are held up, and Postgres is restarted. In the end it must catch up by
itself, and every sink must hold what naive Python computes from the rows.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from commands import FLUSSO, Deployment, Running
from fix_postgres import Database
from flusso.sinks.base import IndexState, SinkSpec
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.sqlite import SqliteSpec
from oracle.compare import Wrong, differences
from oracle.held import holding_commits
from oracle.histories import random_rows
from oracle.world import World
from oracle.writers import Writers
from pipelines import confirmed_lsn, current_lsn, published
from sizes import SIZES
from waiting import wait_until


@dataclass(slots=True)
class Scene:
    """A world on a server of its own, with `flusso run` following it."""

    database: Database
    world: World
    folder: Path
    search_url: str | None = None
    has_sqlite: bool = True
    command: Sequence[str] = tuple(FLUSSO)
    log: list[str] = field(default_factory=list)
    _deployment: Deployment = field(init=False)
    _running: Running = field(init=False)
    _starts: int = 0

    @property
    def sinks(self) -> list[SinkSpec]:
        found: list[SinkSpec] = []
        if self.has_sqlite:
            found.append(SqliteSpec("local", self.folder / "index.db"))
        if self.search_url:
            found.append(
                OpenSearchSpec("search", (self.search_url,), prefix=self._prefix, number_of_replicas=0)
            )
        return found

    @property
    def _prefix(self) -> str:
        return f"oracle_{self.database.name}_{self.database.server.port}_"

    def prepare(self) -> None:
        """Make tables, rows and files."""
        self.database.execute(self.world.ddl)
        with psycopg.connect(self.database.dsn.text, autocommit=True) as conn:
            for statement in random_rows(self.world.rng("rows"), self.world.tables):
                try:
                    conn.execute(statement)
                except psycopg.Error:
                    continue
        sinks = '[sinks.local]\ntype = "sqlite"\npath = "index.db"\n' if self.has_sqlite else ""
        if self.search_url:
            sinks += (
                f'[sinks.search]\ntype = "opensearch"\nurl = "{self.search_url}"\nnumber_of_replicas = 0\n'
            )
        self._deployment = Deployment(
            self.folder, self.database, sink=sinks, schemas=self.world.schemas, command=self.command
        )
        self._deployment.env |= {"FLUSSO_INDEX_PREFIX": self._prefix}

    @contextmanager
    def following(self) -> Iterator[None]:
        """Run flusso while the block runs; in the end it stops in order."""
        self.start()
        try:
            yield
        finally:
            self._running.__exit__()

    def start(self) -> None:
        """Start flusso; what the last one has logged is kept."""
        self._starts += 1
        log = self.folder / "log"
        if log.exists():
            log.rename(self.folder / f"log.{self._starts - 1}")
        self._running = self._deployment.start("run")

    def is_alive(self) -> bool:
        return self._running.process.poll() is None

    def harm(self, name: str, rng: random.Random) -> None:
        """Do one kind of harm, and start flusso again if it was the victim."""
        assert self.is_alive(), self._ending()
        self.log.append(name)
        HARMS[name](self, rng)

    def stop(self, *, may_be_starting: bool = False) -> None:
        """Stop in order; before it is fully up, a signal just ends it."""
        os.kill(self._running.process.pid, signal.SIGTERM)
        code = self._running.wait_end(SIZES.patience_s)
        assert code == 0 or (may_be_starting and code == -signal.SIGTERM), self._ending()

    def _ending(self) -> str:
        return f"ended with {self._running.process.returncode} after {self.log}: {self._running.log()}"

    def await_seeding(self) -> None:
        """Wait until the first seed has begun."""
        self._running.wait_for("seed started")

    def await_seeded(self) -> None:
        """Wait until flusso follows, and every index is whole in every sink."""

        def is_seeded() -> bool:
            assert self.is_alive(), self._ending()
            # The log first: to ask servers and sinks all the time would hold up what is waited for.
            return "following slot=" in self._running.log() and all(
                state is not None and state.is_seeded for state in self._states()
            )

        wait_until(is_seeded, what=lambda: f"the seed: {self._states()}\n{self._running.log()[-3000:]}")

    def settle(self) -> None:
        """Wait until all that was written is confirmed, nothing is owed, and every index is whole."""
        target = current_lsn(self.database)

        def is_settled() -> bool:
            assert self.is_alive(), self._ending()
            return confirmed_lsn(self.database, self._deployment.slot) >= target and all(
                state is not None and state.is_seeded and not state.debts for state in self._states()
            )

        wait_until(is_settled, what=lambda: f"the end: {self._states()}\n{self._running.log()[-3000:]}")

    def _states(self) -> list[IndexState | None]:
        found: list[IndexState | None] = []
        for spec in self.sinks:
            sink = spec.open()
            states = sink.load_states()
            sink.close()
            found += [states.serving(name) for name in self.world.schemas]
        return found

    def compare(self) -> int:
        """Raise `Wrong` if any sink is not exact; give the number of documents in each."""
        expected = self.world.expected(self.database.dsn.text)
        for spec in self.sinks:
            wrong = differences(expected, self._held(spec))
            if wrong:
                told = f"harm: {', '.join(self.log)}; kept in {self.folder}"
                raise Wrong(self.world, f'sink "{spec.name}"', wrong, told)
        return sum(map(len, expected.values()))

    def _held(self, spec: SinkSpec) -> Mapping[str, Mapping[str, bytes]]:
        sink = spec.open()
        try:
            found = {}
            for name in self.world.schemas:
                target = published(sink, name)
                sink.refresh(target)
                stored = sink.read(target, list(sink.ids(target)))
                found[name] = {id_: each.body for id_, each in stored.items()}
            return found
        finally:
            sink.close()

    # Harm

    def _kill(self, rng: random.Random) -> None:
        os.kill(self._running.process.pid, signal.SIGKILL)
        self._running.wait_end()
        self.start()

    def _kill_group(self, rng: random.Random) -> None:
        self._running.__exit__()
        self.start()

    def _kill_java(self, rng: random.Random) -> None:
        os.kill(self._running.find("org.apache.spark.deploy.SparkSubmit"), signal.SIGKILL)
        self._running.wait_end()
        self.start()

    def _kill_worker(self, rng: random.Random) -> None:
        workers = [pid for pid in self._running.family() if _is_worker(pid)]
        if workers:
            os.kill(rng.choice(workers), signal.SIGKILL)

    def _pause(self, rng: random.Random) -> None:
        paused = [self._running.process.pid, *(self._running.family() if rng.random() < 0.5 else ())]
        for pid in paused:
            _signal(pid, signal.SIGSTOP)
        threading.Event().wait(rng.uniform(0.1, 4))
        for pid in paused:
            _signal(pid, signal.SIGCONT)

    def _restart(self, rng: random.Random) -> None:
        self.stop(may_be_starting=True)
        self.start()

    def _kill_walsender(self, rng: random.Random) -> None:
        self.database.execute(
            "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s",
            self._deployment.slot,
        )

    def _hold_commits(self, rng: random.Random) -> None:
        with holding_commits(self.database):
            threading.Event().wait(rng.uniform(0.1, 2))

    def _restart_postgres(self, mode: str) -> None:
        self.database.server.stop(mode)
        self.database.server.start()


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_worker(pid: int) -> bool:
    try:
        return b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return False


CRASH = "Postgres crashed"
HARMS: Mapping[str, Callable[[Scene, random.Random], None]] = {
    "kill -9": Scene._kill,
    "kill -9 of all": Scene._kill_group,
    "kill -9 of the JVM": Scene._kill_java,
    "kill -9 of a worker": Scene._kill_worker,
    "pause": Scene._pause,
    "restart": Scene._restart,
    "walsender killed": Scene._kill_walsender,
    "commits held": Scene._hold_commits,
    "Postgres restarted": lambda scene, rng: scene._restart_postgres("fast"),
    CRASH: lambda scene, rng: scene._restart_postgres("immediate"),
}


def play(scene: Scene, harms: Sequence[str], *, is_early: bool = False, rest_s: float = 3.0) -> int:
    """Write, do all this harm at random moments, and compare in the end. Gives the number of documents.

    The first harm comes when all is seeded, or with `is_early` another before it, right after the seed has
    begun; others may come while flusso is still starting. After a crash of Postgres everything is built anew,
    which would make good what came before; so there is a comparison before each of them as well.
    """
    rng = scene.world.rng("harm")
    scene.prepare()
    writers = Writers(scene.database, scene.world)
    count = 0
    with scene.following():
        for number, part in enumerate(between_crashes(harms)):
            with writers.writing():
                _do(scene, part, rng, rest_s, is_early=is_early and number == 0)
            scene.settle()
            count = scene.compare()
        scene.stop()
    assert writers.commits
    return count


def between_crashes(harms: Sequence[str]) -> list[list[str]]:
    """Take harms apart: a crash of Postgres is the first of its part, and the only one."""
    parts: list[list[str]] = [[]]
    for name in harms:
        if name == CRASH and parts[-1]:
            parts.append([])
        parts[-1].append(name)
    return parts


def _do(scene: Scene, harms: Sequence[str], rng: random.Random, rest_s: float, *, is_early: bool) -> None:
    """Do harm while others write."""
    if is_early:
        scene.await_seeding()
        scene.harm(harms[0], rng)
    for number, name in enumerate(harms[is_early:]):
        if number == 0 or rng.random() < 0.5:
            scene.await_seeded()
        threading.Event().wait(rng.uniform(0.5, rest_s))
        scene.harm(name, rng)
    threading.Event().wait(rng.uniform(0, rest_s))
