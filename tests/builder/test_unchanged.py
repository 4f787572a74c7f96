"""An update that changes nothing that an index reads builds none of its documents, where the WAL shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from follower import Follower, following

from fix_postgres import fresh_database
from flusso.demo.server import EmbeddedServer

pytestmark = pytest.mark.postgres

TABLES = """
create table people (id int primary key, name text, mail text, note text, big text, kind int default 1,
  shout text generated always as (upper(mail)) stored);
create table calls (id int primary key, person int, minutes int, note text, gone bool default false);
create table plain (id int primary key, name text, note text);
alter table people replica identity full;
alter table people alter big set storage external;
alter table calls replica identity full;
insert into people values (1, 'ada', 'a@x', '', repeat('x', 9000)), (2, 'bob', 'b@x', '', null);
insert into calls values (11, 1, 5, ''), (12, 2, 6, '');
insert into plain values (1, 'p', '');
"""
NAMES = """
version: 1
table: people
fields:
- text: name
- text: big
- sum: minutes
  table: calls
  foreign_key: person
  column: minutes
  value_type: long
"""
MAILS = """
version: 1
table: people
filters: [{ column: kind, op: eq, value: 1 }]
fields: [{ text: mail }]
"""
SHOUTS = """
version: 1
table: people
fields: [{ text: shout }]
"""
CALLS = """
version: 1
table: calls
soft_delete: { column: gone }
fields:
- integer: minutes
- belongs_to: person
  table: people
  column: person
  fields: [{ text: name }]
"""
PLAIN = """
version: 1
table: plain
fields: [{ text: name }]
"""
INDEXES = {"names": NAMES, "mails": MAILS, "shouts": SHOUTS, "calls": CALLS, "plain": PLAIN}


@pytest.fixture(scope="module")
def follower(server_of: Callable[[int], EmbeddedServer]) -> Iterator[Follower]:
    for database in fresh_database(server_of(18)):
        database.execute(TABLES)
        with following(database, INDEXES) as made:
            yield made


@pytest.mark.parametrize(
    ("sql", "touched"),
    [
        ("update people set name = name, mail = mail where id = 1", ""),
        ("update people set name = name || '!' where id = 1", "names:1 shouts:1 calls:11"),
        ("update people set mail = mail || '!' where id = 1", "mails:1 shouts:1"),
        ("update people set note = note || '!' where id = 1", "shouts:1"),
        ("update people set kind = 3 - kind where id = 1", "mails:1 shouts:1"),
        ("update people set big = big || '!' where id = 1", "names:1 shouts:1"),
        ("update people set mail = mail || '?', big = big where id = 1", "mails:1 shouts:1"),
        ("update people set big = coalesce(big, '') || '!' where id = 2", "names:2 shouts:2"),
        ("update calls set note = note || '!' where id = 11", ""),
        ("update calls set minutes = minutes + 1 where id = 11", "names:1 calls:11"),
        ("update calls set gone = not gone where id = 11", "calls:11"),
        ("update plain set note = 'x' where id = 1", "plain:1"),
    ],
)
def test_only_indexes_that_read_what_changed_build_documents(
    follower: Follower, sql: str, touched: str
) -> None:
    found = {f"{index}:{id_}" for index, id_ in follower.apply(sql)}
    assert found == set(touched.split())
    assert follower.documents == follower.seed()


def test_there_and_back_is_not_nothing(follower: Follower) -> None:
    changes = follower.read(
        "update calls set minutes = minutes + 1, note = 'x' where id = 12",
        "update calls set note = 'y' where id = 12",
        "update calls set minutes = minutes - 1, note = '' where id = 12",
    )
    assert len(changes) == 2
    assert {document.index for document in follower.resolve(changes)} == {"names", "calls"}
