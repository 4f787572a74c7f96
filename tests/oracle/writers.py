"""Writers that run freely, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from fix_postgres import Database
from oracle.histories import Transaction, random_transaction
from oracle.world import World

_SETTINGS = "-c lock_timeout=2000 -c timezone=UTC"
_PAUSE_S = 0.02
"""Between two transactions of a writer: what is written must also be followed."""


@dataclass(slots=True)
class Writers:
    """Threads that write until they are told to end, whatever happens to the server."""

    database: Database
    world: World
    count: int = 3
    commits: int = 0
    _stretches: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write while the block runs; each time something else."""
        self._stop.clear()
        self._stretches += 1
        threads = [threading.Thread(target=self._write, args=(n,), daemon=True) for n in range(self.count)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _write(self, number: int) -> None:
        rng = self.world.rng(f"writer {number}, stretch {self._stretches}")
        conn: psycopg.Connection[tuple[object, ...]] | None = None
        while not self._stop.wait(_PAUSE_S):
            try:
                if conn is None or conn.closed:
                    conn = psycopg.connect(self.database.dsn.text, autocommit=True, options=_SETTINGS)
                self._run(conn, random_transaction(rng, self.world.tables))
            except psycopg.Error:
                if conn is not None:
                    conn.close()  # whatever it had open is rolled back, and the server may be gone
        if conn is not None:
            conn.close()

    def _run(self, conn: psycopg.Connection[tuple[object, ...]], transaction: Transaction) -> None:
        conn.execute(f"begin isolation level {transaction.level}")
        for statement in transaction.statements:
            conn.execute(statement)
        conn.execute("commit" if transaction.is_kept else "rollback")
        self.commits += transaction.is_kept
