"""The stage of a run: servers of our own, the workload's tables, and the deployment that flusso runs from.

Every measurement takes a `Stage` and leaves it usable for the next. The workload is 200,000 users with
three nested orders each, a count, and text and keyword fields with subfields; one shard, no replica.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.flusso import Pipeline, start_flusso
from bench.search import Search
from flusso.demo.server import EmbeddedServer, create_server
from flusso.postgres.connect import Connection, Dsn

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from search_server import start_server

INDEX = "users"
SECOND_INDEX = "members"
SLOT = "bench"

_HEAP = "2g"
_TABLES = """
create table users (
  id bigint primary key,
  name text not null,
  email text not null,
  city text not null,
  mark text not null default '',
  created_at timestamptz not null
);
create table orders (
  id bigint primary key,
  user_id bigint not null references users,
  status text not null,
  total numeric(10, 2) not null,
  placed_at timestamptz not null
);
alter table orders replica identity full;
"""
_USERS = """
insert into users (id, name, email, city, created_at)
select i,
  (array['Ada', 'Bruno', 'Carla', 'Dario', 'Elena', 'Franco', 'Gina'])[1 + i %% 7] || ' ' ||
  (array['Rossi', 'Bianchi', 'Romano', 'Colombo', 'Ricci', 'Marino', 'Greco', 'Gallo'])[1 + i / 7 %% 8]
  || ' ' || i,
  'user' || i || '@example.org',
  (array['Torino', 'Milano', 'Napoli', 'Palermo', 'Genova', 'Bologna'])[1 + i %% 6],
  timestamptz '2020-01-01' + i * interval '7 minutes'
from generate_series(1, %s) as i
"""
# A user's orders lie far apart, as orders that come in over the years do.
_ORDERS = """
insert into orders
select i, 1 + i %% %s, (array['paid', 'sent', 'open', 'returned'])[1 + i %% 4], (i %% 9973) * 1.37,
  timestamptz '2021-01-01' + i * interval '2 minutes'
from generate_series(1, 3 * %s) as i
"""
_SCHEMA = """\
version: 1
table: users
fields:
  - long: id
  - text: name
  - keyword: email
  - keyword: city
  - keyword: mark
  - timestamp: createdAt
    column: created_at
  - count: orderCount
    table: orders
    foreign_key: user_id
  - has_many: orders
    table: orders
    foreign_key: user_id
    fields:
      - long: id
      - keyword: status
      - decimal: total
      - timestamp: placedAt
        column: placed_at
"""
_CONFIG = """\
[source]
type = "postgres"
slot = "{slot}"

[sinks.search]
type = "opensearch"
url = "{url}"
number_of_replicas = 0
"""
_INDEX_CONFIG = """
[[index]]
name = "{name}"
schema = "users.schema.yml"
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much to measure."""

    users: int = 200_000
    changes: int = 2_000_000
    capture_changes: int = 300_000
    capture_rounds: int = 5
    seeds: int = 7
    transaction: int = 50_000
    transactions: int = 5
    warm_up: int = 60
    samples: int = 250
    idle_s: float = 120.0
    idles: int = 1


QUICK = Sizes(
    users=10_000, changes=50_000, capture_changes=30_000, capture_rounds=2, seeds=1, transaction=5_000,
    transactions=1, warm_up=15, samples=30, idle_s=10.0, idles=1,
)  # fmt: skip


@dataclass(slots=True)
class Stage:
    """Running servers with the workload in them, and at most one flusso that follows."""

    postgres: EmbeddedServer
    search: Search
    folder: Path
    sizes: Sizes
    _following: Pipeline | None = field(default=None)

    @property
    def dsn(self) -> Dsn:
        """The workload's database."""
        return Dsn(self.postgres.dsn())

    @property
    def schema_file(self) -> Path:
        """The schema of the index."""
        return self.folder / "users.schema.yml"

    def postgres_pid(self) -> int:
        """Give the process id of the server."""
        return int((Path(self.postgres.data) / "postmaster.pid").read_text().split()[0])

    def connect(self) -> Connection:
        """Open a connection of the workload's own, in autocommit."""
        return psycopg.connect(self.dsn.text, autocommit=True)

    def start(
        self, *arguments: str, indexes: tuple[str, ...] = (INDEX,), master: str | None = None
    ) -> Pipeline:
        """Start `flusso run` for these indexes, on this Spark master if it matters."""
        config = _CONFIG.format(slot=SLOT, url=self.search.url)
        config += f'\n[spark]\nmaster = "{master}"\n' if master else ""
        config += "".join(_INDEX_CONFIG.format(name=name) for name in indexes)
        (self.folder / "flusso.toml").write_text(config)
        return start_flusso(self.folder, {"DATABASE_URL": self.dsn.text}, *arguments)

    def following(self) -> Pipeline:
        """Give a flusso that follows, with its index seeded: the running one, or a new one."""
        if self._following is None:
            # It seeds on its first start only; later ones go on where the slot is.
            self._following = self.start()
            self._following.wait_for("following")
            self._following.wait_until(lambda: self.search.count(INDEX) == self.sizes.users, "the seed")
        return self._following

    def stop_following(self) -> None:
        """End the flusso that follows, if there is one."""
        if self._following is not None:
            self._following.stop()
            self._following = None


@contextmanager
def open_stage(sizes: Sizes) -> Iterator[Stage]:
    """Start the servers, fill the tables, and remove everything at the end."""
    folder = Path(tempfile.mkdtemp(prefix="flusso-bench-"))
    postgres = create_server(18)
    try:
        given = os.environ.get("FLUSSO_TEST_OPENSEARCH_URL")
        server = None if given else start_server(heap=_HEAP, quick=False)
        try:
            search = Search((given or server.url).rstrip("/"))  # type: ignore[union-attr]
            stage = Stage(postgres, search, folder, sizes)
            _fill(stage)
            stage.schema_file.write_text(_SCHEMA)
            try:
                yield stage
            finally:
                stage.stop_following()
        finally:
            if server is not None:
                server.stop()
    finally:
        postgres.remove()
        shutil.rmtree(folder, ignore_errors=True)


def _fill(stage: Stage) -> None:
    users = stage.sizes.users
    with stage.connect() as conn:
        conn.execute(_TABLES)
        conn.execute(_USERS, (users,))
        conn.execute(_ORDERS, (users, users))
        conn.execute("create index on orders (user_id)")
        conn.execute("vacuum analyze")
        conn.execute("checkpoint")


def drop_slot(conn: Connection, name: str, *, timeout_s: float = 30.0) -> None:
    """Drop a slot; whoever read it may need a moment to let go."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            conn.execute("select pg_drop_replication_slot(%s)", (name,))
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
