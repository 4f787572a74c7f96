"""The first tier: many short histories, each step of it chosen by the seed.

One thread takes all steps: of writers, whose transactions are open side by side, and of the follower. A
writer that meets a lock gives up at once, because whoever holds it cannot go on meanwhile. So a seed that
fails once fails again.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from fix_postgres import Database
from oracle.compare import Wrong, differences
from oracle.following import Follower
from oracle.held import await_sent, holding_commits
from oracle.histories import Transaction, random_departure, random_rows, random_transaction
from oracle.world import World

_LOCK_TIMEOUT_MS = 5


@dataclass(slots=True)
class Writer:
    """A connection with a transaction that goes on one step at a time."""

    dsn: str
    rng: random.Random
    world: World
    log: list[str]
    number: int
    _steps: Iterator[None] | None = None
    _conn: psycopg.Connection[tuple[object, ...]] | None = None

    def step(self) -> None:
        """Begin, go on or end a transaction."""
        if self._steps is None:
            self._steps = self._run(random_transaction(self.rng, self.world.tables))
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
        except psycopg.Error as error:
            self._steps = None
            self._tell(f"failed: {str(error).splitlines()[0]}")
            self._open().rollback()

    def finish(self) -> None:
        """Go on to the end of the transaction."""
        while self._steps is not None:
            self.step()

    def commit_one(self) -> None:
        """Do a whole transaction, one that is kept and that lets others read meanwhile."""
        transaction = random_transaction(self.rng, self.world.tables)
        while any(_is_exclusive(statement) for statement in transaction.statements):
            transaction = random_transaction(self.rng, self.world.tables)
        self._steps = self._run(replace(transaction, is_kept=True))
        self.finish()

    def take_away(self) -> None:
        """Do a whole transaction by which rows leave the documents that show them."""
        self.finish()
        self._steps = self._run(random_departure(self.rng, self.world.tables))
        self.finish()

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()

    def _run(self, transaction: Transaction) -> Iterator[None]:
        conn = self._open()
        self._tell(f"begin {transaction.level}")
        conn.execute(f"begin isolation level {transaction.level}")
        is_exclusive = False
        for statement in transaction.statements:
            if not is_exclusive:
                yield
            self._tell(statement)
            conn.execute(statement)
            is_exclusive |= _is_exclusive(statement)
        if not is_exclusive:
            yield
        self._tell("commit" if transaction.is_kept else "rollback")
        conn.execute("commit" if transaction.is_kept else "rollback")

    def _open(self) -> psycopg.Connection[tuple[object, ...]]:
        if self._conn is None:
            settings = f"-c lock_timeout={_LOCK_TIMEOUT_MS} -c timezone=UTC"
            self._conn = psycopg.connect(self.dsn, autocommit=True, options=settings)
        return self._conn

    def _tell(self, what: str) -> None:
        self.log.append(f"{self.number}: {what}")


def _is_exclusive(statement: str) -> bool:
    """Whether nobody can read the table until the transaction ends."""
    return statement.startswith("truncate")


@dataclass(slots=True)
class History:
    """One world from its first row to the comparison at its end."""

    database: Database
    world: World
    folder: Path
    steps: int = 150
    writers: int = 3
    log: list[str] = field(default_factory=list)

    def run(self) -> int:
        """Play it; raises `Wrong` when a document is not what it must be. Gives the number of documents."""
        self.database.execute(self.world.ddl)
        self._fill()
        rng = self.world.rng("steps")
        writers = [self._writer(number) for number in range(self.writers)]

        def meanwhile() -> None:
            for _ in range(rng.choice((0, 0, 1, 3))):
                rng.choice(writers).step()

        def depart() -> None:
            rng.choice(writers).take_away()

        steps = self.world.rng("follower")
        follower = Follower(self.database, self.world, self.folder, steps, meanwhile, depart)
        follower.begin()
        try:
            follower.seed()
            for _ in range(self.steps):
                self._step(rng, writers, follower)
            for writer in writers:
                writer.finish()
            self._end(rng, writers, follower)
            count = self._compare(follower)
            return self._fill_anew(writers, follower) if rng.random() < 0.5 else count
        finally:
            follower.stop()
            for writer in writers:
                writer.close()

    def _step(self, rng: random.Random, writers: list[Writer], follower: Follower) -> None:
        chance = rng.random()
        if chance < 0.77:
            rng.choice(writers).step()
        elif chance < 0.97:
            follower.step()
        elif chance < 0.975:
            follower.release()
        elif chance < 0.985:
            follower.pay()
        elif chance < 0.995:
            self._hold(rng.choice(writers), follower)
        else:
            self.log.append("crash with a batch in hand")
            follower.crash_in_batch()

    def _hold(self, writer: Writer, follower: Follower) -> None:
        """Let a commit reach the WAL long before anybody can see it, and the follower do what it does."""
        writer.finish()
        self.log.append("commits are held")
        with holding_commits(self.database), follower.alone():
            thread = threading.Thread(target=writer.commit_one)
            thread.start()
            if await_sent(self.database, follower.slot, lambda: not thread.is_alive()):
                while follower.look():
                    follower.step()
        thread.join()
        self.log.append("commits are held no more")

    def _end(self, rng: random.Random, writers: list[Writer], follower: Follower) -> None:
        """Do harm once more, after which nothing comes that could make it good by chance; then catch up."""
        if rng.random() < 0.5:
            self.log.append("crash with a batch in hand")
            follower.crash_in_batch()
        if rng.random() < 0.5:
            self._hold(rng.choice(writers), follower)
        with follower.alone():
            follower.settle()

    def _fill_anew(self, writers: list[Writer], follower: Follower) -> int:
        """Fill new generations while writers write, and compare before anything else could make them good."""
        self.log.append("filled anew")
        follower.seed()
        for writer in writers:
            writer.finish()
        with follower.alone():
            follower.settle()
        return self._compare(follower)

    def _writer(self, number: int) -> Writer:
        rng = self.world.rng(f"writer {number}")
        return Writer(self.database.dsn.text, rng, self.world, self.log, number)

    def _fill(self) -> None:
        rng = self.world.rng("rows")
        with psycopg.connect(self.database.dsn.text, autocommit=True) as conn:
            for statement in random_rows(rng, self.world.tables):
                try:
                    conn.execute(statement)
                    self.log.append(statement)
                except psycopg.Error:
                    continue

    def _compare(self, follower: Follower) -> int:
        expected = self.world.expected(self.database.dsn.text)
        wrong = differences(expected, follower.documents())
        if wrong:
            told = "\n".join(self.log)
            raise Wrong(self.world, "the sink", wrong, told)
        return sum(map(len, expected.values()))
