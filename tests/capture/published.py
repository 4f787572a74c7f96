"""A place of its own in a database that tests share: tables, and the publication that is to hold them."""

from __future__ import annotations

import itertools

import psycopg

from fix_postgres import Database
from flusso.capture.coverage import Coverage, ensure_coverage, inspect_coverage
from flusso.catalog import TableName
from flusso.change import WatchedTable

_numbers = itertools.count(1)


class Place:
    """A schema with a publication of the same name, in a database that others use too."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.name = f"place_{next(_numbers)}"
        self.version = 0
        database.execute(f"create schema {self.name}")
        with database.connect() as conn:
            self.version = conn.info.server_version

    def execute(self, sql: str) -> list[tuple[object, ...]]:
        """Run statements here; `{here}` stands for the publication."""
        path = f"set search_path = {self.name}; "
        return self.database.execute(path + sql.replace("{here}", self.name))

    def table(self, name: str, *columns: str, links: tuple[str, ...] = ()) -> WatchedTable:
        return WatchedTable(TableName(self.name, name), columns, links=links)

    def inspect(self, *tables: WatchedTable, manages_identity: bool = False) -> Coverage:
        with self.database.connect() as conn:
            return inspect_coverage(conn, self.name, tables, manages_identity=manages_identity)

    def ensure(self, *tables: WatchedTable, manage: bool = True) -> Coverage:
        with self.database.connect() as conn:
            return ensure_coverage(conn, self.name, tables, manage=manage)

    def published(self) -> set[object]:
        sql = f"select tablename from pg_publication_tables where pubname = '{self.name}'"
        return {name for (name,) in self.database.execute(sql)}

    def exists(self) -> bool:
        return bool(self.database.execute(f"select 1 from pg_publication where pubname = '{self.name}'"))

    def try_writes(self, table: str) -> str:
        """Update and delete every row, leave all as it was, and give what the server objects to."""
        with psycopg.connect(self.database.dsn.text) as conn:
            conn.execute(f"set search_path = {self.name}".encode())
            try:
                for sql in (f"update {table} set touched = true", f"delete from {table}"):
                    assert conn.execute(sql.encode()).rowcount > 0
            except psycopg.Error as error:
                return str(error.diag.message_detail or error.diag.message_primary)
            finally:
                conn.rollback()
        return ""
