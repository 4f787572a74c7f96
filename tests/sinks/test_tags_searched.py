"""Documents with every tag, from real rows into a real OpenSearch under its strict mapping, and found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fix_postgres import Database, fresh_database
from flusso.builder.plan import compile_index
from flusso.builder.ranges import plan_ranges, read_range
from flusso.demo.server import EmbeddedServer
from flusso.document import Write
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of
from flusso.schema.parse import parse_schema
from flusso.sinks.base import IndexTarget
from flusso.sinks.search.opensearch import OpenSearchClient, OpenSearchSpec
from flusso.sinks.search.server import Server

pytestmark = [pytest.mark.opensearch, pytest.mark.postgres]

TABLES = """
create table shops (id int primary key, name text, sku text, level text, city text, address inet,
  lat float8, lon float8, spot jsonb, titles jsonb, stock json, opened jsonb, price numeric);
create table visits (id int primary key, shop_id int, guest text, stars int, at timestamptz, day date);
create table tags (id int primary key, label text);
create table shop_tags (id int primary key, shop_id int, tag_id int, removed bool);
insert into shops values
  (1, 'Élégance à Zürich', 'AB-1234/x', 'high', 'Zürich', '10.0.0.1', 47.4, 8.5, '[8.5, 47.4]',
    '{"en": "Fine shoes", "it": "Scarpe fini", "a.b": "lost", "deep": {"x": 1}}',
    '{"red": 5, "blue": "many"}', '{"mo": "2024-01-01", "tu": "never", "we": 20240101}', 12.50),
  (2, 'Other', 'QX 77', 'low', 'rome', '10.0.0.2', 41.9, 12.5, '"41.9,12.5"', '{"it": "Cappelli"}',
    '{"red": 1, "green": 2.5, "no": true}', '{}', 3),
  (3, null, null, 'medium', null, null, 100, 0, '{"lat": "north"}', '[1]', null, '{"mo": false}', null),
  (4, 'Last', 'low-1', 'lowest of all', 'Bern', null, null, null, null, '{"it": ["Guanti", "Calze", {}]}',
    '{"n": [1, "x", null]}', '{"mo": ["2024-02-01", "x"]}', 1e300);
insert into visits values (10, 1, 'ada', 5, '2024-03-01 10:00+00', '2024-03-01'),
  (11, 1, 'bob', 1, '2024-02-01 10:00+00', 'infinity'), (12, 2, 'ada', 1, null, null);
insert into tags values (1, 'new'), (2, 'old');
insert into shop_tags values (1, 1, 1, false), (2, 1, 2, true), (3, 2, 2, false);
"""
SCHEMA = """
version: 1
table: shops
fields:
  - text: name
  - identifier: sku
  - keyword: city
  - enum: level
    variants: [low, medium, high]
  - custom: address
    postgres: [inet]
    opensearch: ip
  - custom: price
    postgres: [numeric]
    opensearch: scaled_float
    options: { scaling_factor: 100, ignore_malformed: true }
  - geo: place
    lat: lat
    lon: lon
  - geo: spot
  - map: titles
    values: text
  - map: stock
    values: integer
  - object: hours
    fields:
      - map: opened
        values: date
  - constant: origin
    value: shops
  - constant: rank
    value: 7
  - constant: extra
    value: { any: [1, { deep: true }], other: null }
  - has_many: visits
    table: visits
    foreign_key: shop_id
    fields:
      - keyword: guest
      - integer: stars
  - avg: meanStars
    table: visits
    foreign_key: shop_id
    column: stars
  - max: lastVisit
    table: visits
    foreign_key: shop_id
    column: at
    value_type: timestamp
  - max: lastDay
    table: visits
    foreign_key: shop_id
    column: day
    value_type: date
  - min: firstGuest
    table: visits
    foreign_key: shop_id
    column: guest
    value_type: keyword
  - ids: visitIds
    table: visits
    foreign_key: shop_id
    element_type: long
  - ids: tagIds
    table: tags
    element_type: integer
    through:
      table: shop_tags
      left_key: shop_id
      right_key: tag_id
      filters: [{ column: removed, op: eq, value: false }]
"""


class Searched:
    """One index of one kind of analysis, filled from the tables."""

    def __init__(self, database: Database, url: str, analysis: str) -> None:
        self.spec = OpenSearchSpec(
            "search",
            (url,),
            prefix=f"tags{os.getpid()}_{analysis}_",
            text_analysis=analysis,
            number_of_replicas=0,
        )
        self.target = IndexTarget("shops", "b" * 64, 1)
        self.server = Server(OpenSearchClient(self.spec), "search", 0)
        schema = parse_schema(SCHEMA, file="shops.schema.yml")
        with database.connect() as conn:
            plan = compile_index("shops", schema, read_catalog(conn, tables_of(schema)))
            found = [
                Write(built.id, 5, built.body)
                for part in plan_ranges(conn, plan, 1)
                for batch in read_range(conn, plan, part)
                for built in batch
            ]
        sink = self.spec.open()
        sink.ensure(self.target, schema)
        self.result = sink.write(self.target, found, refresh=True)
        sink.close()

    def found(self, query: object, **more: object) -> list[str]:
        path = f"/{self.spec.prefix}shops_{'b' * 12}_1/_search"
        answer = self.server.request("POST", path, {"query": query} | more).json
        hits = [hit["_id"] for hit in answer["hits"]["hits"]]
        return hits if "sort" in more else sorted(hits)


@pytest.fixture(scope="module", params=["builtin", "plain"])
def shops(
    request: pytest.FixtureRequest, opensearch_url: str, server_of: Callable[[int], EmbeddedServer]
) -> Iterator[Searched]:
    fresh = fresh_database(server_of(18))
    database = next(fresh)
    database.execute(TABLES)
    made = Searched(database, opensearch_url, request.param)
    yield made
    made.server.request("DELETE", f"/{made.spec.prefix}*")
    made.server.close()
    next(fresh, None)


def test_every_document_is_taken_whatever_its_columns_hold(shops: Searched) -> None:
    assert (shops.result.written, shops.result.refusals) == (4, ())


ANYWHERE: dict[str, tuple[Any, list[str]]] = {
    "a word of a text": ({"match": {"name": "last"}}, ["4"]),
    "the lower case of a keyword": ({"term": {"city.keyword_lowercase": "zürich"}}, ["1"]),
    "an address in a custom field": ({"term": {"address": "10.0.0.0/31"}}, ["1"]),
    "a number in a custom field": ({"range": {"price": {"gte": 3, "lte": 20}}}, ["1", "2"]),
    "a point near another": (
        {"geo_distance": {"distance": "50km", "place": {"lat": 47.5, "lon": 8.6}}},
        ["1"],
    ),
    "a point that was json": (
        {"geo_distance": {"distance": "50km", "spot": {"lat": 42.0, "lon": 12.4}}},
        ["2"],
    ),
    "a word under a key of a map": ({"match": {"titles.it": "scarpe"}}, ["1"]),
    "a word of a list under a key of a map": ({"match": {"titles.it": "calze"}}, ["4"]),
    "a word under any key of a map": ({"multi_match": {"query": "fine", "fields": ["titles.*"]}}, ["1"]),
    "a keyword beside the text of a map": ({"term": {"titles.it.keyword": "Cappelli"}}, ["2"]),
    "a number under a key of a map": ({"range": {"stock.red": {"gte": 2}}}, ["1"]),
    "a number of a list in a map": ({"term": {"stock.n": 1}}, ["4"]),
    "a date under a key of a map": ({"range": {"hours.opened.mo": {"lt": "2024-01-02"}}}, ["1"]),
    "a constant": ({"bool": {"must": [{"term": {"origin": "shops"}}, {"term": {"rank": 7}}]}}, list("1234")),
    "a mean": ({"term": {"meanStars": 3}}, ["1"]),
    "the greatest moment": ({"range": {"lastVisit": {"gte": "2024-03-01T09:59:59Z"}}}, ["1"]),
    "the least word": ({"term": {"firstGuest": "ada"}}, ["1", "2"]),
    "ids of related rows": ({"terms": {"visitIds": [11, 12]}}, ["1", "2"]),
    "ids through a junction": ({"terms": {"tagIds": [2]}}, ["2"]),
    "two columns of one related row": (
        {
            "nested": {
                "path": "visits",
                "query": {
                    "bool": {"must": [{"term": {"visits.guest": "ada"}}, {"term": {"visits.stars": 5}}]}
                },
            }
        },
        ["1"],
    ),
}


@pytest.mark.parametrize("what", ANYWHERE)
def test_a_query_finds(shops: Searched, what: str) -> None:
    query, expected = ANYWHERE[what]
    assert shops.found(query) == expected


def test_the_analyzers_fold_accents_and_take_codes_apart(shops: Searched) -> None:
    if shops.spec.text_analysis == "plain":
        pytest.skip("plain has the server's own analyzer")
    assert shops.found({"match": {"name": {"query": "elegance ZURICH", "operator": "and"}}}) == ["1"]
    for code in ("1234", "ab", "AB1234X"):
        assert shops.found({"match": {"sku": code}}) == ["1"], code


def test_an_enum_sorts_by_rank_and_what_is_no_variant_last(shops: Searched) -> None:
    if shops.spec.text_analysis == "plain":
        pytest.skip("a rank is computed by a module that plain does without")
    assert shops.found({"match_all": {}}, sort=["level.sort"]) == ["2", "3", "1", "4"]


def test_a_key_that_the_schema_does_not_know_is_refused(shops: Searched) -> None:
    sink = shops.spec.open()
    result = sink.write(shops.target, [Write("9", 6, b'{"surprise":1}')], refresh=True)
    sink.close()
    assert len(result.refusals) == 1
