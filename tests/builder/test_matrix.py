"""Every kind of change at every kind of place reaches exactly the documents it touches.

One test for each cell of the matrix: the change is made in Postgres, read from a real slot and resolved. All
documents that a SELECT gives otherwise than before must be among those found, and those found must be the
ones that the cell names. All of it twice: with the identities that the worlds set, and with the default one
on every table, where documents are found by the references that they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from follower import Documents, Follower, following
from matrix import OWED
from worlds import WORLDS

from fix_postgres import fresh_database
from flusso.builder.ranges import plan_ranges, read_reached
from flusso.builder.resolve import find_owed, resolve
from flusso.change import Change
from flusso.debt import Owed, Scope
from flusso.demo.server import EmbeddedServer
from flusso.document import DocumentId, id_text
from sizes import IS_FULL

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("matrix")]

CELLS = [
    pytest.param(number, place, id=f"{world.name}: {cell.row}, {cell.column}")
    for number, world in enumerate(WORLDS)
    for place, cell in enumerate(world.cells)
]


AS_IT_COMES = """
do $$
declare t regclass;
begin
  for t in select c.oid from pg_class as c join pg_index as i on i.indrelid = c.oid and i.indisprimary
           where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
  loop
    execute format('alter table %s replica identity default', t);
  end loop;
end $$
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cell did: documents before and after, those that were found, and the indexes that are owed."""

    before: Documents
    after: Documents
    touched: set[tuple[str, str]]
    owed: dict[str, Scope]

    @property
    def differing(self) -> set[tuple[str, str]]:
        return {
            (index, id_)
            for index, documents in self.after.items()
            for id_ in self.before[index].keys() | documents.keys()
            if self.before[index].get(id_) != documents.get(id_)
        }


class Scene:
    """One stream over the tables and indexes of all worlds. Worlds share no table, so the nth cells of all of
    them are done together: waiting for the stream is what takes long."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._first: Documents | None = None
        self._tokens: dict[tuple[str, str], frozenset[str]] = {}
        self._rounds: dict[int, dict[int, Outcome]] = {}

    def outcome(self, number: int, place: int) -> Outcome:
        if place not in self._rounds:
            self._rounds[place] = self._do(place)
        return self._rounds[place][number]

    def _do(self, place: int) -> dict[int, Outcome]:
        follower = self._follower
        worlds = [(number, world) for number, world in enumerate(WORLDS) if place < len(world.cells)]
        resets = {number: named(world.reset, number) for number, world in enumerate(WORLDS)}
        if self._first is None:
            follower.read(*resets.values())
            self._first = follower.seed()
            self._tokens = dict(follower.tokens)
        transactions = [named(sql, number) for number, world in worlds for sql in world.cells[place].sql]
        reset = "; ".join(resets[number] for number, _ in worlds)
        changes = follower.read(*transactions, after=reset)
        after = follower.seed({named(name, number) for number, world in worlds for name in world.schemas})
        touched = {(each.index, id_text(each.key)) for each in follower.resolve(changes)}
        if IS_FULL or place % 7 == 0:
            self._check_reached(changes, touched)
        touched |= set(follower.referring(changes, self._tokens))
        owed = {each.index: each.scope for each in find_owed(follower.plans, changes)}
        return {number: self._outcome(number, after, touched, owed) for number, _ in worlds}

    def _check_reached(self, changes: list[Change], touched: set[tuple[str, str]]) -> None:
        """What is owed instead of named, when it is too much, leads to the same rows of the root."""
        follower = self._follower
        reached = {
            (plan.index, id_text(key))
            for plan in follower.plans
            for owed in resolve(follower.conn, [plan], changes, follower.watched, limit=0)
            if isinstance(owed, Owed) and owed.reach is not None
            for part in plan_ranges(follower.conn, plan, 1)
            for key in read_reached(follower.conn, plan, part, owed.reach)
        }
        assert reached <= touched
        by_root = resolve(follower.conn, follower.plans, changes, follower.watched, limit=0)
        named = {(each.index, id_text(each.key)) for each in by_root if isinstance(each, DocumentId)}
        assert touched == reached | named

    def _outcome(
        self, number: int, after: Documents, touched: set[tuple[str, str]], owed: dict[str, Scope]
    ) -> Outcome:
        assert self._first is not None
        indexes = {named(name, number) for name in WORLDS[number].schemas}
        return Outcome(
            {index: self._first[index] for index in indexes},
            {index: after[index] for index in indexes},
            {each for each in touched if each[0] in indexes},
            {index: scope for index, scope in owed.items() if index in indexes},
        )


@pytest.fixture(scope="module", params=["declared", "default"])
def scene(request: pytest.FixtureRequest, server_of: Callable[[int], EmbeddedServer]) -> Iterator[Scene]:
    is_default = request.param == "default"
    for database in fresh_database(server_of(18)):
        database.execute("\n".join(named(world.tables, n) for n, world in enumerate(WORLDS)))
        if is_default:
            database.execute(AS_IT_COMES)
        schemas = {
            named(name, n): named(schema, n)
            for n, world in enumerate(WORLDS)
            for name, schema in world.schemas.items()
        }
        with following(database, schemas, keeps_references=is_default) as follower:
            yield Scene(follower)


def named(text: str, number: int) -> str:
    return text.replace("@", f"w{number}_")


@pytest.mark.parametrize(("number", "place"), CELLS)
def test_a_change_reaches_exactly_the_documents_it_touches(scene: Scene, number: int, place: int) -> None:
    expected = WORLDS[number].cells[place].touched
    outcome = scene.outcome(number, place)
    if expected == OWED:
        assert outcome.differing, "a truncate that changes nothing shows nothing"
        assert outcome.differing <= covered(outcome)
        assert outcome.touched == set()
    else:
        assert outcome.differing <= outcome.touched
        assert outcome.touched == {document(word, number) for word in expected.split()}
        assert outcome.owed == {}


def covered(outcome: Outcome) -> set[tuple[str, str]]:
    """The documents that what is owed stands for."""
    return {
        (index, id_)
        for index, scope in outcome.owed.items()
        for id_ in outcome.before[index]
        if scope is not Scope.GONE or id_ not in outcome.after[index]
    }


def document(word: str, number: int) -> tuple[str, str]:
    index, _, id_ = word.rpartition(":")
    return named(f"@{index}", number), id_
