"""A publication, or a table in it, that was away for a while is not the one that was there before."""

from __future__ import annotations

import pytest
from published import Place

from flusso.capture.coverage import read_marks
from flusso.capture.fingerprint import Gap, Marks
from flusso.catalog import TableName
from flusso.errors import CoverageGap, PublicationError, PublicationYounger

A, B = TableName("public", "a"), TableName("public", "b")
LEAF = TableName("public", "leaf")


def test_the_same_rows_are_no_gap() -> None:
    marks = Marks("flusso", "p1.1", {A: {A: frozenset({"r1.1"})}})
    assert marks.fingerprint([A]) == "p1.1 r1.1"
    assert marks.find_gap("p1.1 r1.1", [A]) is None


def test_rows_of_other_tables_are_no_gap() -> None:
    marks = Marks("flusso", "p1.1", {A: {A: frozenset({"r1.1"})}, B: {B: frozenset({"r2.2"})}})
    assert marks.find_gap("p1.1 r1.1", [A]) is None


def test_a_second_hold_and_a_new_leaf_under_a_known_hold_are_no_gap() -> None:
    marks = Marks("flusso", "p1.1", {A: {A: frozenset({"r1.1", "s9.9"}), LEAF: frozenset({"r1.1"})}})
    assert marks.find_gap("p1.1 r1.1", [A]) is None


def test_without_a_fingerprint_what_is_held_now_is_believed() -> None:
    assert Marks("flusso", "p1.1", {A: {A: frozenset({"r1.1"})}}).find_gap("", [A]) is None


@pytest.mark.parametrize(
    ("marks", "is_replaced"),
    [
        (Marks("flusso", None), True),
        (Marks("flusso", "p2.7", {A: {A: frozenset({"r1.1"})}}), True),
        (Marks("flusso", "p1.7", {A: {A: frozenset({"r1.1"})}}), False),
        (Marks("flusso", "p1.1", {A: {A: frozenset({"r5.5"})}}), False),
        (Marks("flusso", "p1.1", {A: {A: frozenset()}}), False),
    ],
    ids=["gone", "made again", "altered", "added again", "taken out"],
)
def test_other_rows_are_a_gap(marks: Marks, is_replaced: bool) -> None:
    gap = marks.find_gap("p1.1 r1.1", [A])
    assert gap is not None
    assert gap.is_replaced is is_replaced


def test_a_gap_is_a_typed_error_with_its_remedy() -> None:
    replaced, partial = Gap("gone", True).error("shop", "users"), Gap("gone").error("shop", "users")
    assert type(replaced) is PublicationYounger
    assert "flusso slot drop" in str(replaced)
    assert type(partial) is CoverageGap
    assert "flusso reindex users" in str(partial)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("drop publication {here}; create publication {here} for table t, u", "dropped and made again"),
        ("drop publication {here}", "does not exist"),
        ("alter publication {here} drop table t; alter publication {here} add table t", "was added"),
        ("alter publication {here} drop table t", "does not hold"),
        ("alter publication {here} set (publish = 'insert'); alter publication {here} set (publish = "
         "'insert, update, delete, truncate')", "was altered"),
        ("alter publication {here} add table v", ""),
        ("alter publication {here} drop table u; alter publication {here} add table u", ""),
        ("vacuum full pg_publication_rel", ""),
    ],
)  # fmt: skip
def test_the_catalog_shows_what_was_away(place: Place, sql: str, words: str) -> None:
    for name in "tuv":
        place.execute(f"create table {name} (id int primary key)")
    place.execute("create publication {here} for table t, u")
    table = TableName(place.name, "t")
    with place.database.connect() as conn:
        before = read_marks(conn, place.name, [table]).fingerprint([table])
        for statement in sql.replace("{here}", place.name).split("; "):
            conn.execute("set search_path = " + place.name)
            conn.execute(statement.encode())
        gap = read_marks(conn, place.name, [table]).find_gap(before, [table])
    assert (words in gap.reason if words and gap else not gap) is True


@pytest.mark.postgres
def test_a_child_that_came_later_is_told(place: Place) -> None:
    place.execute("create table t (id int primary key); create table u () inherits (t)")
    with place.database.connect() as conn:
        with pytest.raises(PublicationError, match=r"\.t has tables that inherit from it"):
            read_marks(conn, place.name, [TableName(place.name, "t")])
