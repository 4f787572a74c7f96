"""`flusso init`: what it writes for real databases passes `check` as it is, and builds documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from fix_postgres import Database
from flusso.cli.main import app
from flusso.errors import ConfigError
from flusso.schema.model import Aggregate, Join, Scalar, walk
from flusso.schema.parse import parse_schema

pytestmark = pytest.mark.postgres

SHOP = Path(__file__).parents[2] / "src" / "flusso" / "demo" / "shop"

ODD = Path(__file__).with_name("odd.sql").read_text()

Call = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    def run(database: Database, *arguments: str) -> Result:
        monkeypatch.setenv("DATABASE_URL", database.dsn.text)
        return CliRunner().invoke(app, list(arguments))

    return run


def _load_shop(database: Database) -> None:
    with psycopg.connect(database.dsn.text) as conn:
        conn.execute("set shop.customers = '200'; set shop.orders = '600'")
        conn.execute((SHOP / "shop.sql").read_bytes())
        conn.execute(
            """
            alter table orders add foreign key (customer_id) references customers;
            alter table order_items add foreign key (order_id) references orders;
            alter table order_items add foreign key (product_id) references products;
            alter table customer_tags add foreign key (customer_id) references customers;
            alter table customer_tags add foreign key (tag_id) references tags
            """
        )


def _passes(call: Call, database: Database) -> None:
    done = call(database, "check", "--format", "json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["errors"]) == (0, 0), found


def _document(call: Call, database: Database, index: str) -> Any:
    done = call(database, "sample", index)
    assert done.exit_code == 0, done.exception
    return json.loads(done.stdout)


def test_the_shop_gets_its_relations(call: Call, database: Database) -> None:
    _load_shop(database)
    assert call(database, "init", "--table", "customers").exit_code == 0
    _passes(call, database)
    document = _document(call, database, "customers")
    assert set(document) == {
        *("id", "name", "email", "city", "country", "joined_on", "is_deleted"),
        *("orders", "orders_count", "tags"),
    }
    assert document["orders_count"] == len(document["orders"]) > 0
    order = document["orders"][0]
    assert "customer_id" not in order
    assert order["order_items"][0]["product"]["category"]["name"]
    assert "# soft_delete: { column: is_deleted }" in Path("customers.schema.yml").read_text()


def test_odd_names_types_and_keys_pass_check_and_build_a_document(call: Call, database: Database) -> None:
    database.execute(ODD)
    done = call(database, "init", "--table", "order", "--schema", "Sales Dept", "--index", "orders")
    assert done.exit_code == 0, done.exception
    _passes(call, database)
    document = _document(call, database, "orders")
    assert (document["group"], document["select"], document["line\nbreak"]) == (1, "a|b", "x")
    assert document["Region"] == {"country": "IT", "code_nr": 7, "name": "Lazio"}
    assert document["line"] == [{"id": 5, "item": {"id": _SPOON, "sku": "S", "title": "Spoon"}}]
    assert document["invoice"]["number"] == "R1"
    assert [label["name"] for label in document["label"]] == ["red"]
    assert document["order"] is None
    assert document["order_count"] == 0
    assert "password_hash" not in document
    assert (document["Mood"], document["moods"], document["place"]) == (
        "so-so",
        ["sad", "1"],
        {"lat": 2, "lon": 1},
    )


_SPOON = "00000000-0000-0000-0000-000000000001"


def _odd_schema(call: Call, database: Database) -> tuple[str, dict[str, Any]]:
    database.execute(ODD)
    call(database, "init", "--table", "order", "--schema", "Sales Dept", "--index", "orders")
    text = Path("orders.schema.yml").read_text()
    return text, {item.name: item for item in parse_schema(text, file="f").fields}


def test_each_column_gets_the_tag_of_its_type(call: Call, database18: Database) -> None:
    text, fields = _odd_schema(call, database18)
    kinds = {name: str(item.kind) for name, item in fields.items() if isinstance(item, Scalar)}
    assert {
        name: kinds[name] for name in ("clock", "spell", "ip", "cash", "raw", "extra", "bits", "small")
    } == {
        "clock": "keyword",
        "spell": "keyword",
        "ip": "keyword",
        "cash": "decimal",
        "raw": "binary",
        "extra": "json",
        "bits": "keyword",
        "small": "short",
    }
    assert fields["Mood"].variants == ("sad", "so-so", "1", "true", 'it\'s "fine"')
    assert (kinds["mail"], kinds["updated"], kinds["select"]) == ("text", "timestamp", "keyword")
    assert fields["id"].column == "_id"
    assert "# doc is tsvector, and is left out" in text
    assert "# password_hash looks like a secret, and is left out" in text


def test_every_kind_of_relation_is_found_once(call: Call, database18: Database) -> None:
    _, fields = _odd_schema(call, database18)
    joins = {name: item.kind.value for name, item in fields.items() if isinstance(item, Join)}
    assert joins == {
        "Region": "belongs_to",
        "order": "belongs_to",
        "line": "has_many",
        "invoice": "has_one",
        "label": "many_to_many",
        "order item": "has_many",
        "follows": "many_to_many",
        "follows_2": "many_to_many",
    }
    assert fields["Region"].column == ("region_code", "region_country")
    assert fields["label"].through.left_key == ("g", "s")
    assert {name for name, item in fields.items() if isinstance(item, Aggregate)} == {
        "line_count",
        "order item_count",
        "order_count",
    }


def test_tables_that_refer_to_each_other_do_not_go_round(call: Call, database18: Database) -> None:
    database18.execute(ODD)
    assert call(database18, "init", "--table", "cat").exit_code == 0
    _passes(call, database18)
    schema = parse_schema(Path("cat.schema.yml").read_text(), file="f")
    assert {item.table.name for item in walk(schema.fields) if isinstance(item, Join)} == {"dog"}


def test_a_crowd_of_rows_is_counted_and_not_put_into_the_document(call: Call, database18: Database) -> None:
    database18.execute(
        """
        create table pages (id int primary key);
        create table hits (id int primary key, page_id int references pages);
        insert into pages values (1);
        insert into hits select i, 1 from generate_series(1, 3000) as i;
        """
    )
    database18.execute("analyze")
    call(database18, "init", "--table", "pages")
    schema = parse_schema(Path("pages.schema.yml").read_text(), file="f")
    assert [item.name for item in schema.fields] == ["id", "hits_count"]
    assert "a row has many hits" in Path("pages.schema.yml").read_text()


def test_the_connection_string_is_written_nowhere(call: Call, database18: Database) -> None:
    database18.execute("create table t (id int primary key)")
    url = f"{database18.dsn.text} password=hunter2"
    done = call(database18, "init", "--table", "t", "--url", url)
    written = "".join(path.read_text() for path in Path().iterdir())
    assert done.exit_code == 0
    assert "hunter2" not in written + done.output
    assert 'connection_url = { env = "DATABASE_URL" }' in written


def test_nothing_is_overwritten_unless_forced(call: Call, database18: Database) -> None:
    database18.execute("create table t (id int primary key)")
    Path("t.schema.yml").write_text("mine")
    error = call(database18, "init", "--table", "t").exception
    assert isinstance(error, ConfigError)
    assert "t.schema.yml is there already" in str(error)
    assert (Path("t.schema.yml").read_text(), Path("flusso.toml").exists()) == ("mine", False)
    assert call(database18, "init", "--table", "t", "--force").exit_code == 0
    assert Path("t.schema.yml").read_text() != "mine"


def test_without_a_terminal_and_a_table_the_tables_are_listed(call: Call, database18: Database) -> None:
    database18.execute("create table a (id int primary key); create table b (x int)")
    database18.execute("create table c (id int primary key)")
    database18.execute("insert into c values (1); analyze")
    error = call(database18, "init").exception
    assert isinstance(error, ConfigError)
    assert error.hint == "give one with --table: public.c (about 1 rows), public.a (about 0 rows)"


def test_on_a_terminal_it_asks_until_the_answer_is_a_table(
    call: Call, database18: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database18.execute("create table a (id int primary key); create table b (x int)")
    monkeypatch.setattr("flusso.cli.init._is_terminal", lambda: True)
    monkeypatch.setenv("DATABASE_URL", database18.dsn.text)
    done = CliRunner().invoke(app, ["init"], input="nobody\nb\n9\n1\n")
    assert done.exit_code == 0, done.exception
    assert Path("a.schema.yml").exists()
    assert "public.b cannot be the root of an index: it has no primary key" in done.stderr


def test_a_table_that_cannot_be_a_root_is_refused_with_the_reason(call: Call, database18: Database) -> None:
    database18.execute(ODD)
    assert "has no primary key" in str(call(database18, "init", "--table", "without_key").exception)
    assert "there is no table" in str(call(database18, "init", "--table", "a_view").exception)
    assert 'did you mean "item"?' in str(call(database18, "init", "--table", "itme").exception)


def test_without_a_database_it_says_how_to_name_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    error = CliRunner().invoke(app, ["init"]).exception
    assert isinstance(error, ConfigError)
    assert "DATABASE_URL" in str(error)


def test_the_facts_come_as_json(call: Call, database18: Database) -> None:
    database18.execute("create table t (id int primary key)")
    done = call(database18, "init", "--table", "public.t", "--index", "things", "--format", "json")
    assert json.loads(done.stdout) == {
        "table": "public.t",
        "index": "things",
        "files": ["flusso.toml", "things.schema.yml"],
    }


def test_a_partitioned_table_may_be_the_root_and_a_relation(call: Call, database: Database) -> None:
    database.execute(
        """
        create table days (id int, day date, note text, primary key (id, day)) partition by range (day);
        create table days_24 partition of days for values from ('2024-01-01') to ('2025-01-01');
        create table notes (
          id int primary key, day_id int, day date, foreign key (day_id, day) references days);
        insert into days values (1, '2024-02-29', 'leap');
        insert into notes values (7, 1, '2024-02-29');
        """
    )
    assert call(database, "init", "--table", "days").exit_code == 0
    _passes(call, database)
    assert _document(call, database, "days") == {
        "id": 1,
        "day": "2024-02-29",
        "note": "leap",
        "notes": [{"id": 7}],
        "notes_count": 1,
    }
    assert call(database, "init", "--table", "notes", "--force").exit_code == 0
    _passes(call, database)
    assert _document(call, database, "notes")["days"]["note"] == "leap"


def test_tables_that_the_role_may_not_read_are_left_out(call: Call, database18: Database) -> None:
    database18.execute(
        """
        create table open (id int primary key, closed_id int);
        create table closed (id int primary key);
        alter table open add foreign key (closed_id) references closed;
        create role reader login replication;
        grant select on open to reader;
        insert into open values (1, null)
        """
    )
    try:
        url = database18.dsn.text.replace("user=flusso", "user=reader")
        assert call(database18, "init", "--table", "open", "--url", url).exit_code == 0
        error = call(database18, "init", "--table", "closed", "--url", url, "--force").exception
        assert "may not be read by this role" in str(error)
        schema = parse_schema(Path("open.schema.yml").read_text(), file="f")
        assert [item.name for item in schema.fields] == ["id", "closed_id"]
    finally:
        database18.execute("drop owned by reader; drop role reader")


@pytest.mark.parametrize(
    ("table", "index"), [("Order Items", "order_items"), ("_x", "x"), ("ÄB!", "äb"), ("???", "documents")]
)
def test_the_index_gets_a_legal_name_like_that_of_the_table(
    call: Call, database18: Database, table: str, index: str
) -> None:
    database18.execute(f'create table "{table}" (id int primary key)')
    done = call(database18, "init", "--table", table, "--format", "json")
    assert json.loads(done.stdout)["index"] == index
    _passes(call, database18)
