"""Every tag followed: after each change of real rows the documents are those that a seed would give.

Three indexes over the same tables, with keys of several columns, names with spaces, capitals, quotes and
umlauts, two schemas, references to the same table, and the same table on several paths.
"""

from __future__ import annotations

import pytest
from follower import following

from fix_postgres import Database

pytestmark = pytest.mark.postgres

TABLES = """
create schema "Ö shop";
create type mood as enum ('glad', 'sad');
create table "Person" (region text, "Nr" int, "the ""full"" name" text, active bool default true, gone date,
  kind text, boss_region text, boss int, country text, fav int, lat float8, lon float8, titles jsonb,
  feeling mood, code uuid, primary key (region, "Nr"));
create table countries (code text primary key, name text, closed bool);
create table "Ö shop"."order" (id bigint primary key, p_region text, p_nr int, total numeric, status text,
  placed timestamptz, deleted_at timestamptz);
create table "Ö shop".items (order_id bigint, line int, sku text, qty int, primary key (order_id, line));
create table tags (id int primary key, label text, hidden bool default false, weight int);
create table person_tags (id int primary key, region text, nr int, tag int, state text default 'on');
alter table "Person" replica identity full;
alter table "Ö shop"."order" replica identity full;
alter table person_tags replica identity full;
insert into countries values ('it', 'Italy', false), ('jp', 'Japan', false);
insert into tags values (1, 'red', false, 3), (2, 'blue', false, 5), (3, 'green', true, 7);
insert into "Person" values
  ('eu', 1, 'ada', true, null, 'a', null, null, 'it', 1, 41.9, 12.5, '{"it": "Dott"}', 'glad', null),
  ('eu', 2, 'bob', true, null, 'b', 'eu', 1, 'jp', 2, null, null, null, 'sad', null),
  ('us', 1, 'cy', true, null, 'a', 'eu', 1, 'it', null, 1, 2, '{}', null, null),
  ('us', 2, 'di', true, null, 'a', 'us', 1, null, 1, 100, 2, '[]', 'sad', null),
  ('us', 3, 'ed', false, null, 'a', 'us', 1, 'it', 1, null, null, null, null, null);
insert into "Ö shop"."order" values
  (10, 'eu', 1, 5.50, 'paid', '2024-01-01', null), (11, 'eu', 1, 7.25, 'open', '2024-01-02', null),
  (12, 'eu', 1, 1, 'paid', '2024-01-03', null), (13, 'us', 1, 9, 'paid', null, null),
  (14, 'us', 2, null, 'paid', '2024-02-01', null), (15, null, null, 3, 'paid', null, null);
insert into "Ö shop".items values (10, 1, 'a', 1), (10, 2, 'b', 2), (12, 1, 'c', 3), (13, 1, 'a', 4);
insert into person_tags values (1, 'eu', 1, 1, 'on'), (2, 'eu', 1, 2, 'on'), (3, 'eu', 1, 1, 'on'),
  (4, 'us', 1, 3, 'on'), (5, 'us', 2, 2, 'off');
"""
PEOPLE = """
version: 1
table: Person
primary_key: [region, Nr]
filters: [{ column: active, op: eq, value: true }]
soft_delete:
  field: goneSince
  when: [{ column: kind, op: in, value: [a, b] }]
fields:
  - text: name
    column: the "full" name
    transforms: [trim, lowercase]
  - date: goneSince
    column: gone
  - enum: feeling
    variants: [sad, glad]
    default: sad
  - constant: source
    value: { list: [1, two] }
  - geo: place
    lat: lat
    lon: lon
  - map: titles
    values: text
  - custom: code
    postgres: [uuid]
    opensearch: keyword
  - belongs_to: boss
    table: Person
    column: [boss_region, boss]
    primary_key: [region, Nr]
    soft_delete: { column: gone }
    fields:
      - text: name
        column: the "full" name
      - belongs_to: country
        table: countries
        fields: [{ text: name }]
  - has_many: reports
    table: Person
    primary_key: [region, Nr]
    foreign_key: [boss_region, boss]
    filters: [{ raw: "active and kind <> 'x'" }]
    order_by: [{ column: 'the "full" name', direction: desc }]
    limit: 2
    fields:
      - text: name
        column: the "full" name
      - count: orders
        table: order
        schema: Ö shop
        foreign_key: [p_region, p_nr]
  - belongs_to: country
    table: countries
    filters: [{ column: closed, op: eq, value: false }]
    fields: [{ keyword: name }]
  - belongs_to: favourite
    table: tags
    column: fav
    fields: [{ keyword: label }]
  - object: shop
    fields:
      - has_many: orders
        table: order
        schema: Ö shop
        foreign_key: [p_region, p_nr]
        filters: [{ column: status, op: neq, value: void }]
        soft_delete: { column: deleted_at }
        order_by: [{ column: placed, direction: desc }]
        limit: 2
        fields:
          - decimal: total
          - sum: quantity
            table: items
            schema: Ö shop
            foreign_key: order_id
            column: qty
            value_type: long
          - has_many: items
            table: items
            schema: Ö shop
            foreign_key: order_id
            fields: [{ keyword: sku }]
      - has_one: last
        table: order
        schema: Ö shop
        foreign_key: [p_region, p_nr]
        soft_delete: { column: deleted_at, when: [{ raw: "status <> 'paid'" }] }
        order_by: [{ column: placed, direction: desc }]
        fields: [{ long: id }]
      - avg: mean
        table: order
        schema: Ö shop
        foreign_key: [p_region, p_nr]
        column: total
        filters: [{ column: status, op: eq, value: paid }]
      - min: first
        table: order
        schema: Ö shop
        foreign_key: [p_region, p_nr]
        column: placed
        value_type: timestamp
        soft_delete: { column: deleted_at }
      - max: dearest
        table: order
        schema: Ö shop
        foreign_key: [p_region, p_nr]
        column: total
        value_type: decimal
      - ids: orderIds
        table: order
        schema: Ö shop
        foreign_key: [p_region, p_nr]
        element_type: long
        filters: [{ column: total, op: between, value: [1, 8] }]
  - many_to_many: tags
    table: tags
    through:
      table: person_tags
      left_key: [region, nr]
      right_key: tag
      filters: [{ column: state, op: eq, value: "on" }]
    soft_delete: { column: hidden }
    order_by: [{ column: weight }]
    fields: [{ keyword: label }]
  - ids: tagIds
    table: tags
    distinct: true
    element_type: integer
    through: { table: person_tags, left_key: [region, nr], right_key: tag }
  - sum: tagWeight
    table: tags
    column: weight
    value_type: long
    soft_delete: { column: hidden }
    through:
      table: person_tags
      left_key: [region, nr]
      right_key: tag
      filters: [{ raw: "state = 'on'" }]
"""
TAGS = """
version: 1
table: tags
fields:
  - keyword: label
  - many_to_many: people
    table: Person
    primary_key: [region, Nr]
    through: { table: person_tags, left_key: tag, right_key: [region, nr] }
    fields:
      - text: name
        column: the "full" name
  - ids: personIds
    table: Person
    element_type: keyword
    through: { table: person_tags, left_key: tag, right_key: [region, nr] }
  - has_many: fans
    table: Person
    foreign_key: fav
    fields:
      - belongs_to: country
        table: countries
        fields: [{ keyword: name }]
"""
ITEMS = """
version: 1
table: items
schema: Ö shop
fields:
  - keyword: sku
  - belongs_to: order
    table: order
    column: order_id
    fields:
      - keyword: status
      - belongs_to: buyer
        table: Person
        schema: public
        column: [p_region, p_nr]
        primary_key: [region, Nr]
        fields:
          - text: name
            column: the "full" name
          - many_to_many: tags
            table: tags
            schema: public
            through: { table: person_tags, schema: public, left_key: [region, nr], right_key: tag }
            fields: [{ keyword: label }]
"""
INDEXES = {"people": PEOPLE, "tags": TAGS, "items": ITEMS}

CHANGES = {
    "a renamed boss": """update "Person" set "the ""full"" name" = ' ADA ' where region = 'eu'""",
    "a boss who is gone": """update "Person" set gone = '2024-01-01' where region = 'us' and "Nr" = 1""",
    "a reason that no longer counts": """update "Person" set kind = 'c' where region = 'us' and "Nr" = 1""",
    "a boss who is back": """update "Person" set gone = null, kind = 'a' where region = 'us'""",
    "a root that a filter lets in": """update "Person" set active = true where "Nr" = 3""",
    "a root that a filter leaves out": """update "Person" set active = false where "Nr" = 2""",
    "all are back": """update "Person" set active = true""",
    "another boss": """update "Person" set boss_region = 'us', boss = 2 where region = 'eu' and "Nr" = 2""",
    "no boss": """update "Person" set boss = null where region = 'us' and "Nr" = 2""",
    "a changed key": """update "Person" set "Nr" = 9 where region = 'us' and "Nr" = 3""",
    "another country": """update "Person" set country = 'jp' where region = 'us' and "Nr" = 1""",
    "a closed country": "update countries set closed = true where code = 'it'",
    "a renamed country": "update countries set name = 'Nippon' where code = 'jp'",
    "a deleted country": "delete from countries where code = 'it'",
    "a country that comes back": "insert into countries values ('it', 'Italia', false)",
    "a moved point": """update "Person" set lat = 45, lon = 7 where "Nr" = 2""",
    "another title": """update "Person" set titles = '{"en": "Dr", "a.b": 1}' where region = 'eu'""",
    "another feeling": """update "Person" set feeling = null, code = gen_random_uuid()""",
    "an order that no longer counts": """update "Ö shop"."order" set status = 'void' where id = 12""",
    "an order that is deleted softly": """update "Ö shop"."order" set deleted_at = now() where id = 11""",
    "a later order": """update "Ö shop"."order" set placed = '2025-01-01' where id = 10""",
    "a dearer order": """update "Ö shop"."order" set total = 99 where id = 13""",
    "a moved order": """update "Ö shop"."order" set p_region = 'us', p_nr = 2 where id = 10""",
    "an order that nobody has": """update "Ö shop"."order" set p_nr = null where id = 13""",
    "an order found": """update "Ö shop"."order" set p_region = 'eu', p_nr = 2 where id = 15""",
    "a deleted order": """delete from "Ö shop"."order" where id = 14""",
    "a new item": """insert into "Ö shop".items values (11, 1, 'z', 8)""",
    "a moved item": """update "Ö shop".items set order_id = 15 where order_id = 10 and line = 2""",
    "more of an item": """update "Ö shop".items set qty = 50 where order_id = 10""",
    "a deleted item": """delete from "Ö shop".items where order_id = 12""",
    "a link that is off": "update person_tags set state = 'off' where id = 2",
    "a link that is on": "update person_tags set state = 'on' where id = 5",
    "a link to another person": "update person_tags set region = 'us', nr = 2 where id = 1",
    "a link to another tag": "update person_tags set tag = 3 where id = 5",
    "a new link": "insert into person_tags values (9, 'eu', 2, 1)",
    "a deleted link": "delete from person_tags where id = 3",
    "a shown tag": "update tags set hidden = false where id = 3",
    "a hidden tag": "update tags set hidden = true where id = 1",
    "a heavier tag": "update tags set weight = 100 where id = 1",
    "a renamed tag": "update tags set label = 'azure' where id = 2",
    "another favourite": """update "Person" set fav = 3 where fav = 1""",
    "a deleted tag": "delete from tags where id = 3",
    "a changed tag key": "update tags set id = 20 where id = 2",
    "much in one transaction": """
        update "Ö shop"."order" set p_region = 'us', p_nr = 1 where p_region = 'eu';
        delete from "Person" where region = 'eu' and "Nr" = 2;
        insert into "Person" (region, "Nr", "the ""full"" name", boss_region, boss, country)
          values ('eu', 2, 'bo', 'us', 9, 'jp');
        update "Person" set boss_region = 'eu', boss = 2 where region = 'us' and "Nr" = 1;
        update person_tags set tag = 1, region = 'eu', nr = 2;
        update tags set id = 7, label = 'seven' where id = 1;
        update person_tags set tag = 7""",
    "a truncated junction": "truncate person_tags",
    "truncated items": """truncate "Ö shop".items""",
    "a deleted root": """delete from "Person" where region = 'us'""",
    "a truncated root": """truncate "Person" """,
}


def test_after_every_change_the_documents_are_those_of_a_seed(database: Database) -> None:
    database.execute(TABLES)
    with following(database, INDEXES) as follower:
        assert {name: len(found) for name, found in follower.documents.items()} == {
            "people": 4,
            "tags": 3,
            "items": 4,
        }
        for name, sql in CHANGES.items():
            follower.apply(sql)
            assert follower.documents == follower.seed(), f"after {name}"


def test_a_change_builds_only_what_it_can_have_touched(database18: Database) -> None:
    database18.execute(TABLES)
    with following(database18, INDEXES) as follower:
        touched = follower.apply("update tags set weight = 4 where id = 1")
        assert touched == {
            ("people", "eu|1"),
            ("people", "us|2"),
            ("people", "us|3"),
            ("tags", "1"),
            ("items", "10|1"),
            ("items", "10|2"),
            ("items", "12|1"),
        }
        assert follower.apply("insert into countries values ('fr', 'France', false)") == set()


def test_a_document_of_several_key_columns_has_every_tag(database18: Database) -> None:
    database18.execute(TABLES)
    with following(database18, {"people": PEOPLE}) as follower:
        assert follower.documents["people"]["eu|1"].decode() == (
            '{"name":"ada","goneSince":null,"feeling":"glad","source":{"list":[1,"two"]},'
            '"place":{"lat":41.9,"lon":12.5},"titles":{"it":"Dott"},"code":null,"boss":null,'
            '"reports":[{"name":"cy","orders":1},{"name":"bob","orders":0}],"country":{"name":"Italy"},'
            '"favourite":{"label":"red"},"shop":{"orders":[{"total":1,"quantity":3,"items":[{"sku":"c"}]},'
            '{"total":7.25,"quantity":null,"items":[]}],"last":{"id":12},"mean":3.25,'
            '"first":"2024-01-01T00:00:00Z","dearest":7.25,"orderIds":[10,11,12]},'
            '"tags":[{"label":"red"},{"label":"red"},{"label":"blue"}],"tagIds":[1,2],"tagWeight":11}'
        )
