from __future__ import annotations

import pytest

from flusso.capture.transactions import Position
from flusso.catalog import TableName
from flusso.engine.standalone.offsets import Phase, RowOffset
from flusso.engine.standalone.options import OPTIONS, RowOptions, parse_options, parse_tables
from flusso.errors import ConfigError
from flusso.lsn import Lsn

GIVEN = {"url": "host=localhost dbname=shop", "tables": "orders", "slot": "spark_orders"}


def parse(**more: str) -> RowOptions:
    """Names come as Spark hands them over: in lower case."""
    return parse_options({name.lower(): value for name, value in (GIVEN | more).items()})


def test_the_publication_has_the_name_of_the_slot_if_it_is_not_named() -> None:
    assert parse().capture.publication == "spark_orders"
    assert parse(publication="shop").capture.publication == "shop"


def test_defaults_are_those_of_the_table() -> None:
    options = parse()
    assert (options.takes_snapshot, options.is_typed) == (False, False)
    assert options.max_changes == int(OPTIONS["maxChangesPerTrigger"])
    assert options.max_bytes == int(OPTIONS["maxBytesPerTrigger"])
    assert options.advance_s == int(OPTIONS["advanceSeconds"])
    assert options.part_bytes == int(OPTIONS["snapshotPartitionBytes"])
    assert options.capture.manages_publication


def test_parts_of_the_connection_go_over_the_url_whatever_they_contain() -> None:
    keywords = parse(password="it's \\ 100%", database="other", connect_timeout="3").capture.dsn.keywords()
    assert (keywords["password"], keywords["dbname"], keywords["host"]) == (
        "it's \\ 100%",
        "other",
        "localhost",
    )
    assert keywords["connect_timeout"] == "3"


def test_parts_alone_are_a_connection() -> None:
    given = {"tables": "a", "slot": "b", "host": "db", "port": "5433", "user": "me"}
    keywords = parse_options(given).capture.dsn.keywords()
    assert (keywords["host"], keywords["port"], keywords["user"]) == ("db", "5433", "me")


def test_no_piece_is_larger_than_a_batch() -> None:
    assert parse(maxChangesPerTrigger="7").capture.piece_changes == 7


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"tabels": "x"}, 'unknown option "tabels": did you mean "tables"'),
        ({"maxChangesPerTriger": "5"}, 'did you mean "maxChangesPerTrigger"'),
        ({"zzzz": "5"}, "the options are url, tables"),
        ({"replication": "database"}, 'unknown option "replication"'),
        ({"tables": " "}, 'option "tables" is missing'),
        ({"slot": ""}, 'option "slot" is missing'),
        ({"slot": "Bad-Name"}, "no name for a slot"),
        ({"slot": "x" * 60, "snapshot": "initial"}, "no name for a slot"),
        ({"snapshot": "always"}, "none or initial"),
        ({"typed": "yes"}, "true or false"),
        ({"typed": "true", "tables": "a, b"}, "only one table can be typed"),
        ({"maxChangesPerTrigger": "0"}, "a whole number above 0"),
        ({"maxBytesPerTrigger": "32m"}, "a whole number above 0"),
    ],
)
def test_a_wrong_option_is_refused_in_words(more: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(**more)
    assert told.lower() in str(caught.value).lower()


def test_a_broken_url_is_refused_without_its_password() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(url="postgresql://me:hunter2@[broken/db")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("orders", [("public", "orders")]),
        (" shop.orders , items ", [("shop", "orders"), ("public", "items")]),
        ('"My Schema"."a.b,c"', [("My Schema", "a.b,c")]),
        ('shop."say ""hi"""', [("shop", 'say "hi"')]),
        ("Größe", [("public", "Größe")]),
        ("a, a", [("public", "a")]),
    ],
)
def test_tables_are_named_as_the_catalog_has_them(text: str, tables: list[tuple[str, str]]) -> None:
    assert parse_tables(text) == tuple(TableName(*table) for table in tables)


@pytest.mark.parametrize("text", ["a.b.c", "a,,b", ",a", ".a", "a.", '"a', '"a"b', "a b.c d.e", '""'])
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_tables(text)


@pytest.mark.parametrize(
    "offset",
    [
        RowOffset(Phase.SNAPSHOT),
        RowOffset(Phase.JOINED),
        RowOffset(Phase.LIVE, "7/shop", Position(Lsn(1 << 40), Lsn(1 << 41), 9), 3),
    ],
)
def test_an_offset_comes_back_as_it_was_written(offset: RowOffset) -> None:
    assert RowOffset.from_json(offset.to_json()) == offset


@pytest.mark.parametrize(
    "fields", [{}, {"phase": "other"}, {"phase": "live", "lsn": "x"}, {"lsn": "0/1", "tick": 0}]
)
def test_an_offset_of_another_source_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="new checkpoint"):
        RowOffset.from_json(fields)
