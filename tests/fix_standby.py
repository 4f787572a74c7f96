"""A primary with a streaming standby, of either version."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest

from fix_postgres import Database
from flusso.demo.server import EmbeddedServer, create_server, free_port
from flusso.lsn import Lsn
from flusso.postgres.connect import Dsn
from pipelines import current_lsn
from waiting import wait_until


@dataclass(frozen=True, slots=True)
class Pair:
    """Two servers; the second follows the first until it is promoted."""

    primary: EmbeddedServer
    standby: EmbeddedServer

    @property
    def dsn(self) -> Dsn:
        """Both servers, of which libpq takes the one that can be written to."""
        return Dsn(
            f"host=127.0.0.1,127.0.0.1 port={self.primary.port},{self.standby.port} user=flusso "
            "dbname=postgres target_session_attrs=read-write"
        )

    @property
    def old(self) -> Database:
        return Database(self.primary, "postgres")

    @property
    def new(self) -> Database:
        return Database(self.standby, "postgres")

    def wait_replayed(self) -> None:
        """Wait until the standby has all that the primary has."""
        target = current_lsn(self.old)

        def look() -> bool:
            return Lsn.parse(str(self.new.execute("select pg_last_wal_replay_lsn()")[0][0])) >= target

        wait_until(look, what=f"the standby to replay {target}")

    def cut(self) -> None:
        """Let nothing more reach the standby."""
        with psycopg.connect(self.new.dsn.text, autocommit=True) as conn:
            conn.execute("alter system set primary_conninfo = ''")
            conn.execute("select pg_reload_conf()")
        wait_until(
            lambda: (
                self.old.execute("select 1 from pg_stat_replication where application_name = 'standby'") == []
            ),
            what="the standby to be cut off",
        )

    def fail_over(self) -> None:
        """Kill the primary and promote the standby."""
        self.primary.stop("immediate")
        self.standby.control("promote", "-w")


@pytest.fixture
def pair_of() -> Iterator[Callable[[int], Pair]]:
    """Make a pair of a major version."""
    made: list[EmbeddedServer] = []

    def make(major: int) -> Pair:
        primary = create_server(major)
        made.append(primary)
        standby = _make_standby(primary, major)
        made.append(standby)
        return Pair(primary, standby)

    yield make
    for server in made:
        server.remove()


def _make_standby(primary: EmbeddedServer, major: int) -> EmbeddedServer:
    folder = Path(f"{primary.folder}-standby")
    folder.mkdir(mode=0o700)
    if primary.user is not None:
        os.chown(folder, pwd.getpwnam(primary.user).pw_uid, -1)
    standby = replace(primary, folder=folder, port=free_port())
    upstream = f"{primary.dsn()} application_name=standby"
    subprocess.run(
        [primary.binaries / "pg_basebackup", "-d", upstream, "-D", standby.data, "-R", "-C", "-S", "standby",
         "-c", "fast"],
        user=primary.user, cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    settings = {"port": standby.port, "hot_standby_feedback": "on", "unix_socket_directories": folder}
    settings["primary_conninfo"] = upstream
    with (standby.data / "postgresql.auto.conf").open("a") as config:
        config.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    standby.start()
    return standby
