"""What the compiler says of a schema without asking a database: problems, watched columns."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from declared import aggregate, belongs_to, count, has_many, has_one, many_to_many, root, scalar, table, total

from flusso.builder.plan import Hop, compile_index, find_problems, watched_tables
from flusso.builder.statement import in_range
from flusso.catalog import Catalog, Column, IdentityKind, Table, TableKind
from flusso.change import WatchedTable
from flusso.errors import SchemaError
from flusso.schema.model import (
    ColumnFilter,
    Constant,
    Custom,
    Direction,
    Field,
    FilterOp,
    Geo,
    Group,
    IndexSchema,
    Map,
    OrderBy,
    RawFilter,
    ScalarKind,
    SoftDelete,
    Through,
    Transform,
)

GOLDEN = Path(__file__).parent.parent / "golden"

COLUMNS = {
    "users": "id:int8 name:text email:varchar country:text created:timestamptz score:float8 avatar:bytea"
    " gone:bool lat:numeric lon:float8 work:json spot:point titles:jsonb marks:json",
    "orders": "id:int8 user_id:int8 total:numeric placed:date status:text",
    "items": "id:int8 order_id:int8 qty:int4 sku:text",
    "countries": "code:text name:text",
    "tags": "id:int8 label:text",
    "user_tags": "user_id:int8 tag_id:int8 state:text",
    "pairs": "a:int8 b:text user_id:int8",
    "heap": "x:int8",
}
KEYS = {"countries": ("code",), "user_tags": ("user_id", "tag_id"), "pairs": ("a", "b"), "heap": ()}
TAGGED = Through(table("user_tags"), ("user_id",), ("tag_id",))


def catalog(identity: IdentityKind = IdentityKind.DEFAULT, kind: TableKind = TableKind.TABLE) -> Catalog:
    tables = {}
    for oid, (name, text) in enumerate(COLUMNS.items(), 1):
        pairs = [part.split(":") for part in text.split()]
        columns = {column: Column(column, base, base) for column, base in pairs}
        key = KEYS.get(name, ("id",))
        carried = tuple(columns) if identity is IdentityKind.FULL else key
        tables[table(name)] = Table(table(name), oid, kind, columns, key, identity, carried)
    return Catalog(tables)


SHOP = root(
    "users",
    scalar("id", "long"),
    scalar("name", transforms=(Transform.TRIM, Transform.LOWERCASE)),
    scalar("email", "keyword", default="none"),
    scalar("created", "timestamp"),
    scalar("score", "double"),
    Group("picture", (scalar("bytes", "binary", "avatar"),)),
    belongs_to("country", "countries", ("country",), scalar("name")),
    has_many(
        "orders",
        "orders",
        ("user_id",),
        scalar("total", "decimal"),
        has_many("items", "items", ("order_id",), scalar("sku", "keyword"), filters=(RawFilter("qty > 0"),)),
        filters=(ColumnFilter("status", FilterOp.IN, ("paid", "sent")),),
        order_by=(OrderBy("placed", Direction.DESC),),
        limit=10,
    ),
    has_one("last", "orders", ("user_id",), scalar("placed", "date"), order_by=(OrderBy("placed"),)),
    many_to_many("tags", "tags", scalar("label"), through=TAGGED),
    count("order_count", "orders", ("user_id",)),
    total("spent", "orders", "total", ("user_id",), value_type=ScalarKind.DECIMAL),
    filters=(ColumnFilter("score", FilterOp.BETWEEN, (0, 100)),),
    soft_delete=SoftDelete("gone"),
)
PAIRS = root("pairs", scalar("b"), belongs_to("user", "users", ("user_id",), scalar("name")))
FILTERED = Through(
    table("user_tags"), ("user_id",), ("tag_id",), (ColumnFilter("state", FilterOp.NEQ, ("off",)),)
)
TAGS = root(
    "users",
    Constant("origin", {"b": [1, None], "a": "it's \\ here"}),
    Custom("score", "score", ("double precision",), "half_float", default=0.5),
    Geo("home", lat="lat", lon="lon"),
    Geo("work", column="work"),
    Geo("spot", column="spot"),
    Geo("text", column="name"),
    Map("titles", "titles", ScalarKind.TEXT),
    Map("marks", "marks", ScalarKind.LONG),
    scalar("level", "enum", "country", variants=("low", "high")),
    belongs_to("country", "countries", ("country",), scalar("name"), soft_delete=SoftDelete("name")),
    aggregate("mean", "avg", "orders", ("user_id",), column="total"),
    aggregate("first", "min", "orders", ("user_id",), column="placed", value_type=ScalarKind.DATE),
    aggregate(
        "last",
        "max",
        "orders",
        ("user_id",),
        column="status",
        value_type=ScalarKind.KEYWORD,
        filters=(ColumnFilter("total", FilterOp.GT, (0,)),),
        soft_delete=SoftDelete("placed", (RawFilter("total = 0"),)),
    ),
    aggregate("order_ids", "ids", "orders", ("user_id",), element_type=ScalarKind.LONG),
    aggregate("pair_ids", "ids", "pairs", ("user_id",), element_type=ScalarKind.KEYWORD),
    aggregate("tag_ids", "ids", "tags", through=FILTERED, element_type=ScalarKind.LONG, is_distinct=True),
    aggregate("tag_count", "count", "tags", through=FILTERED),
    many_to_many("tags", "tags", scalar("label"), through=FILTERED),
)
SCHEMAS = {"shop": SHOP, "pairs": PAIRS, "tags": TAGS}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_same_schema_gives_the_golden_sql(name: str) -> None:
    plan = compile_index(name, SCHEMAS[name], catalog())
    parts = [f"-- by keys, operands {plan.by_keys.operands!r}\n{plan.by_keys.sql};"]
    parts.append(f"-- by range\n{in_range(plan.by_range, plan.root, '(0,0)', '(9,0)')};")
    for path in plan.paths:
        steps = "\n".join(f"{hop.sql};" for hop in path.hops if isinstance(hop, Hop))
        parts.append(f"-- {path.table} {path.columns!r} at {path.field or 'the root'}\n{steps}".rstrip())
    text, golden = "\n\n".join(parts) + "\n", GOLDEN / f"{name}.sql"
    if os.environ.get("FLUSSO_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


ORDERS = has_many("orders", "orders", ("user_id",), scalar("total", "decimal"))
PAID = (ColumnFilter("status", FilterOp.EQ, ("paid",)),)


def count_reads(*fields: Field) -> int:
    """Say how often the statement of such documents reads orders."""
    return compile_index("shop", root("users", *fields), catalog()).by_keys.sql.count('"public"."orders"')


def test_rows_that_are_counted_and_shown_are_read_once() -> None:
    assert count_reads(count("n", "orders", ("user_id",)), ORDERS) == 1
    assert count_reads(replace(ORDERS, filters=PAID), count("n", "orders", ("user_id",), filters=PAID)) == 1


@pytest.mark.parametrize(
    "shown",
    [
        replace(ORDERS, filters=PAID),
        replace(ORDERS, limit=10),
        replace(ORDERS, soft_delete=SoftDelete("placed")),
        replace(ORDERS, foreign_key=("id",)),
        has_one("last", "orders", ("user_id",), scalar("placed", "date")),
        Group("inner", (ORDERS,)),
    ],
)
def test_a_count_of_other_rows_than_are_shown_is_read_by_itself(shown: Field) -> None:
    assert count_reads(count("n", "orders", ("user_id",)), shown) == 2


def problems(schema: IndexSchema, known: Catalog | None = None) -> list[str]:
    return [str(one) for one in find_problems("shop", schema, known or catalog())]


def test_a_schema_that_fits_has_no_problems() -> None:
    assert [problems(schema) for schema in SCHEMAS.values()] == [[], [], []]


def test_all_problems_are_reported_at_once() -> None:
    schema = root(
        "users",
        scalar("nick"),
        belongs_to("planet", "planets", ("planet",), scalar("name")),
        has_many("orders", "orders", ("owner",), scalar("total", "integer")),
    )
    with pytest.raises(SchemaError) as raised:
        compile_index("shop", schema, catalog())
    assert raised.value.message.splitlines() == [
        'index "shop": field "nick": table public.users has no column "nick"',
        'index "shop": field "planet": table public.planets does not exist, or this role may not see it',
        'index "shop": field "orders": table public.orders has no column "owner"',
        'index "shop": field "orders.total": column "total" of public.orders is numeric, '
        "not fit for integer: "
        "it fits float, double, decimal, text, identifier, keyword, enum",
    ]


def test_a_missing_root_does_not_hide_other_missing_tables() -> None:
    found = problems(root("nowhere", count("n", "gone", ("x",))))
    assert len(found) == 2


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(TableKind.VIEW, "is a view"), (TableKind.FOREIGN, "foreign")],
)
def test_what_is_no_plain_table_is_refused_with_its_reason(kind: TableKind, reason: str) -> None:
    assert any(reason in text for text in problems(root("users", scalar("name")), catalog(kind=kind)))


@pytest.mark.parametrize(
    ("schema", "part"),
    [
        (root("heap", scalar("x", "long")), "has no primary key"),
        (root("users", scalar("name", "long")), "is text, not fit for long"),
        (root("users", scalar("id", "long", transforms=(Transform.TRIM,))), "transforms are for text"),
        (root("users", total("t", "orders", "status", ("user_id",))), "has no sum"),
        (root("users", total("t", "orders", "nope", ("user_id",))), 'no column "nope"'),
        (root("users", count("n", "pairs", ("a", "b"))), "has 2 columns"),
        (root("users", count("n", "orders", ("status",))), "cannot be compared"),
        (root("users", scalar("id", "long"), soft_delete=SoftDelete("nope")), 'no column "nope"'),
        (root("users", scalar("id", "long"), filters=(ColumnFilter("no", FilterOp.IS_NULL),)), 'column "no"'),
        (
            root("users", many_to_many("t", "tags", through=Through(table("nope"), ("a",), ("b",)))),
            "public.nope",
        ),
        (root("users", has_many("o", "orders", ("user_id",), order_by=(OrderBy("nope"),))), 'column "nope"'),
    ],
)
def test_a_mistake_is_named(schema: IndexSchema, part: str) -> None:
    assert any(part in text for text in problems(schema))


def test_watched_tables_have_their_key_first_and_then_their_links() -> None:
    plans = [compile_index(name, SCHEMAS[name], catalog()) for name in ("shop", "pairs")]
    assert tuple(replace(watched, oid=0, read=()) for watched in watched_tables(plans)) == (
        WatchedTable(table("countries"), ("code",), links=("code",)),
        WatchedTable(table("items"), ("id", "order_id"), links=("order_id",)),
        WatchedTable(table("orders"), ("id", "user_id"), links=("user_id",)),
        WatchedTable(table("pairs"), ("a", "b"), links=("a", "b")),
        WatchedTable(table("tags"), ("id",), links=("id",)),
        WatchedTable(table("user_tags"), ("user_id", "tag_id"), links=("user_id",)),
        WatchedTable(table("users"), ("id",), links=("id",)),
    )
