"""Every kind of change at every kind of place reaches exactly the documents it touches.

One test for each cell of the matrix: the change is made in Postgres, read from a real slot and resolved. All
documents that a SELECT gives otherwise than before must be among those found, and those found must be the
ones that the cell names. All of it twice: with the identities that the worlds set, and with the default one
on every table, where documents are found by the references that a SQLite sink keeps of them. A cell of each
kind looks them up in OpenSearch too, in `make stress` every cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from follower import Documents, Follower, following
from matrix import FULL, INDEX, OWED, World
from worlds import FURTHER_CHAINS, WORLDS

from fix_postgres import fresh_database
from flusso.builder.ranges import plan_ranges, read_reached
from flusso.builder.resolve import find_owed, resolve
from flusso.change import Change
from flusso.debt import Owed, Scope
from flusso.demo.server import EmbeddedServer
from flusso.document import DocumentId, id_text
from flusso.sinks.base import Sink
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.sqlite import SqliteSpec
from search_place import new_place
from sizes import IS_FULL

pytestmark = pytest.mark.postgres

Rounds = Sequence[Mapping[int, int]]
"""What is done together: for some worlds, by their numbers, the place of one of their cells."""


def rounds_of(numbers: Iterable[int]) -> Rounds:
    cells = {number: len(WORLDS[number].cells) for number in numbers}
    longest = max(cells.values())
    return [{n: place for n, count in cells.items() if place < count} for place in range(longest)]


def rounds_of_each_kind() -> Rounds:
    """Choose one cell for each row and column, spread over the worlds so that there are few rounds."""
    where: dict[tuple[str, str], dict[int, int]] = {}
    for number, world in enumerate(WORLDS):
        for place, cell in enumerate(world.cells):
            if cell.touched != OWED and world not in FURTHER_CHAINS:
                where.setdefault((cell.row, cell.column), {})[number] = place
    chosen: dict[int, list[int]] = {}
    for places in sorted(where.values(), key=len):  # what only one world has leaves no choice
        number = min(places, key=lambda each: len(chosen.get(each, ())))
        chosen.setdefault(number, []).append(places[number])
    longest = max(map(len, chosen.values()))
    return [{n: places[at] for n, places in chosen.items() if at < len(places)} for at in range(longest)]


def is_repeated(world: World) -> bool:
    """Whether it is as another one where all identities are the default one."""
    return world.identity == INDEX and any(
        other.name == world.name and other.identity == FULL for other in WORLDS
    )


def params_of(rounds: Rounds, *, is_sized: bool = False) -> list[Any]:
    found = sorted((number, place) for chosen in rounds for number, place in chosen.items())
    return [
        pytest.param(
            number,
            place,
            id=f"{(world := WORLDS[number])}: {world.cells[place]}",
            marks=[pytest.mark.sized] if is_sized or world in FURTHER_CHAINS else [],
        )
        for number, place in found
    ]


ALL = rounds_of(range(len(WORLDS)))
BLIND = rounds_of(n for n, world in enumerate(WORLDS) if not is_repeated(world))
SEARCHED = BLIND if IS_FULL else rounds_of_each_kind()

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
    """One stream over the tables and indexes of all worlds. Worlds share no table, so one cell
    of each is done together: waiting for the stream is what takes long."""

    def __init__(self, follower: Follower, rounds: Rounds) -> None:
        self._follower = follower
        self._rounds = rounds
        self._round_of = {cell: at for at, chosen in enumerate(rounds) for cell in chosen.items()}
        self._first: Documents | None = None
        self._done: dict[int, dict[int, Outcome]] = {}

    def outcome(self, number: int, place: int) -> Outcome:
        at = self._round_of[number, place]
        if at not in self._done:
            self._done[at] = self._do(at)
        return self._done[at][number]

    def _do(self, at: int) -> dict[int, Outcome]:
        follower = self._follower
        cells = {number: WORLDS[number].cells[place] for number, place in self._rounds[at].items()}
        resets = {number: named(world.reset, number) for number, world in enumerate(WORLDS)}
        if self._first is None:
            follower.read(*resets.values())
            self._first = follower.fill()
        transactions = [named(sql, number) for number, cell in cells.items() for sql in cell.sql]
        changes = follower.read(*transactions, after="; ".join(resets[number] for number in cells))
        after = follower.seed({named(name, number) for number in cells for name in WORLDS[number].schemas})
        touched = {(each.index, id_text(each.key)) for each in follower.resolve(changes)}
        if IS_FULL or at % 7 == 0:
            self._check_reached(changes, touched)
        touched |= follower.referring(changes)
        owed = {each.index: each.scope for each in find_owed(follower.plans, changes)}
        return {number: self._outcome(number, after, touched, owed) for number in cells}

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


@contextmanager
def playing(server: EmbeddedServer, rounds: Rounds, sink: Sink | None) -> Iterator[Scene]:
    """Make all worlds, with the default identity everywhere if a sink keeps references."""
    for database in fresh_database(server):
        database.execute("\n".join(named(world.tables, n) for n, world in enumerate(WORLDS)))
        if sink is not None:
            database.execute(AS_IT_COMES)
            database.execute("\n".join(named(world.as_it_comes, n) for n, world in enumerate(WORLDS)))
        schemas = {
            named(name, n): named(schema, n)
            for n, world in enumerate(WORLDS)
            for name, schema in world.schemas.items()
        }
        with following(database, schemas, sink) as follower:
            yield Scene(follower, rounds)


@pytest.fixture(scope="module")
def scene(server_of: Callable[[int], EmbeddedServer]) -> Iterator[Scene]:
    with playing(server_of(18), ALL, None) as scene:
        yield scene


@pytest.fixture(scope="module")
def blind_scene(
    server_of: Callable[[int], EmbeddedServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    spec = SqliteSpec("kept", tmp_path_factory.mktemp("matrix") / "kept.db")
    with closing(spec.open()) as sink, playing(server_of(18), BLIND, sink) as scene:
        yield scene


@pytest.fixture(scope="module")
def searched_scene(server_of: Callable[[int], EmbeddedServer], opensearch_url: str) -> Iterator[Scene]:
    place = new_place(OpenSearchSpec, opensearch_url)
    with closing(place.spec().open()) as sink, playing(server_of(18), SEARCHED, sink) as scene:
        yield scene
    place.clear()


def named(text: str, number: int) -> str:
    return text.replace("@", f"w{number}_")


@pytest.mark.parametrize(("number", "place"), params_of(ALL))
def test_a_change_reaches_exactly_the_documents_it_touches(scene: Scene, number: int, place: int) -> None:
    assert_exact(scene.outcome(number, place), number, WORLDS[number].cells[place].touched)


@pytest.mark.parametrize(("number", "place"), params_of(BLIND))
def test_a_blind_change_finds_its_documents_by_what_sqlite_keeps_of_them(
    blind_scene: Scene, number: int, place: int
) -> None:
    assert_exact(blind_scene.outcome(number, place), number, WORLDS[number].cells[place].touched)


@pytest.mark.opensearch
@pytest.mark.parametrize(("number", "place"), params_of(SEARCHED, is_sized=IS_FULL))
def test_a_blind_change_finds_its_documents_by_what_opensearch_keeps_of_them(
    searched_scene: Scene, number: int, place: int
) -> None:
    assert_exact(searched_scene.outcome(number, place), number, WORLDS[number].cells[place].touched)


def assert_exact(outcome: Outcome, number: int, expected: str) -> None:
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
