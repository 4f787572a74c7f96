"""Each thing that a schema file alone can show wrong, with the place where it is said to be wrong."""

from __future__ import annotations

from textwrap import dedent

import pytest

from flusso.errors import SchemaError
from flusso.schema.parse import parse_schema


def problems(text: str) -> list[str]:
    """Give the problems of a file as `line:column: path: message`."""
    with pytest.raises(SchemaError) as caught:
        parse_schema(text, file="f")
    return [str(problem).removeprefix("f:") for problem in caught.value.problems]


def problems_of_fields(fields: str) -> list[str]:
    """Give the problems of fields that begin on line 5 of a file with a key of one column."""
    return problems("version: 1\ntable: customers\nprimary_key: id\nfields:\n" + dedent(fields).lstrip("\n"))


ROOT = {
    "a file without a version": ("table: t\nfields: [{text: a}]", ['1:1: "version" is missing']),
    "another version": (
        "version: 2\ntable: t\nfields: [{text: a}]",
        ["1:10: version: only version 1 is known"],
    ),
    "true as a version": (
        "version: true\ntable: t\nfields: [{text: a}]",
        ["1:10: version: only version 1 is known"],
    ),
    "a missing table": ("version: 1\nfields: [{text: a}]", ['1:1: "table" is missing']),
    "missing fields": ("version: 1\ntable: t", ['1:1: "fields" is missing']),
    "empty fields": ("version: 1\ntable: t\nfields: []", ["3:9: fields: there are no fields"]),
    "fields that are no list": (
        "version: 1\ntable: t\nfields: {text: a}",
        ["3:9: fields: must be a list, is a mapping"],
    ),
    "an unknown key": (
        "version: 1\ntable: t\nfilter: []\nfields: [{text: a}]",
        ['3:1: filter: unknown key "filter": did you mean "filters"?'],
    ),
    "a document id of its own": (
        "version: 1\ntable: t\ndoc_id: x\nfields: [{text: a}]",
        ["3:1: doc_id: doc_id is not supported: the id of a document is the primary key of its row"],
    ),
    "a key of no columns": (
        "version: 1\ntable: t\nprimary_key: []\nfields: [{text: a}]",
        ["3:14: primary_key: names no column"],
    ),
    "a key that repeats a column": (
        "version: 1\ntable: t\nprimary_key: [a, a]\nfields: [{text: a}]",
        ["3:14: primary_key: names a column twice"],
    ),
    "a table name that is a number": (
        "version: 1\ntable: 7\nfields: [{text: a}]",
        ["2:8: table: must be a text, is a number"],
    ),
    "a table name longer than Postgres has": (
        f"version: 1\ntable: {'t' * 64}\nfields: [{{text: a}}]",
        ["2:8: table: is longer than 63 bytes, which no name in Postgres is"],
    ),
    "a file that is a list": ("- version: 1", ["1:1: must be a mapping, is a list"]),
    "an empty file": ("", ["1:1: the file is empty"]),
    "a soft delete by column and field": (
        "version: 1\ntable: t\nsoft_delete: {column: a, field: a}\nfields: [{text: a}]",
        ['3:14: soft_delete: soft_delete takes either "column" or "field"'],
    ),
    "a soft delete by nothing": (
        "version: 1\ntable: t\nsoft_delete: {}\nfields: [{text: a}]",
        ['3:14: soft_delete: soft_delete takes either "column" or "field"'],
    ),
    "a soft delete by a field that is not there": (
        "version: 1\ntable: t\nsoft_delete: {field: goen}\nfields: [{boolean: gone}]",
        ['3:22: soft_delete.field: there is no scalar field "goen" at this level: did you mean "gone"?'],
    ),
}

FIELDS = {
    "an unknown tag": (
        "- txet: a",
        ['5:3: fields[0].txet: unknown type tag "txet": did you mean "text"?'],
    ),
    "an unknown tag that resembles none": (
        "- zzzzzz: a",
        [
            '5:3: fields[0].zzzzzz: unknown type tag "zzzzzz": a field begins with one, like {text: name}',
        ],
    ),
    "two tags": (
        "- text: a\n  keyword: b",
        ['6:3: fields[0].keyword: a field has one type tag: "text" is already there'],
    ),
    "an empty field": ("- {}", ["5:3: fields[0]: the field is empty"]),
    "a field that is a text": (
        "- name",
        ["5:3: fields[0]: a field is a mapping like {text: name}, this is a text"],
    ),
    "a field without a name": ("- text:", ["5:8: fields[0].text: must be a text, is nothing"]),
    "a name with a dot": (
        "- text: a.b",
        ["5:9: fields[0].text: a field name has no dot: use object to group fields"],
    ),
    "a name that the server keeps": (
        "- text: _id\n  column: x",
        ['5:9: fields[0].text: "_id" is a name that search servers keep for themselves'],
    ),
    "a name given twice on a level": (
        "- text: a\n- keyword: a",
        ['6:3: fields[1]: field "a" is already defined on line 5'],
    ),
    "a misspelt key": (
        "- text: a\n  colunm: b",
        ['6:3: fields[0].colunm: unknown key "colunm": did you mean "column"?'],
    ),
    "required as a text": (
        '- text: a\n  required: "yes"',
        ["6:13: fields[0].required: must be true or false, is a text"],
    ),
    "an unknown transform": (
        "- text: a\n  transforms: [lower]",
        ['6:16: fields[0].transforms[0]: "lower" is not one of lowercase, trim: did you mean "lowercase"?'],
    ),
    "a transform of a number": (
        "- long: a\n  transforms: [trim]",
        [
            '6:3: fields[0].transforms: long takes no "transforms": '
            "it works on enum, identifier, keyword, text"
        ],
    ),
    "variants of a text": (
        "- text: a\n  variants: [x]",
        ['6:3: fields[0].variants: text takes no "variants"'],
    ),
    "repeated variants": (
        "- enum: a\n  variants: [x, x]",
        ["6:13: fields[0].variants: variants names a value twice"],
    ),
    "a default of the wrong kind": (
        "- integer: a\n  default: none",
        ["6:12: fields[0].default: the default of integer must be a whole number"],
    ),
    "a default out of the range of its kind": (
        "- short: a\n  default: 32768",
        ["6:12: fields[0].default: the default of short must lie between -32768 and 32767"],
    ),
    "a default that is no date": (
        "- date: a\n  default: 2024-02-30",
        ["6:12: fields[0].default: the default of date must be a date like 2024-12-31"],
    ),
    "a default that is no moment": (
        "- timestamp: a\n  default: now",
        ["6:12: fields[0].default: the default of timestamp must be a moment like 2024-12-31T23:59:59Z"],
    ),
    "a default that is no uuid": (
        "- uuid: a\n  default: x",
        ["6:12: fields[0].default: the default of uuid must be a uuid"],
    ),
    "a default that is a mapping": (
        "- text: a\n  default: {b: 1}",
        ["6:12: fields[0].default: the default of text cannot be a mapping"],
    ),
    "an unknown key that is null": (
        "- text: a\n  colunm:",
        ['6:3: fields[0].colunm: unknown key "colunm": did you mean "column"?'],
    ),
    "a fraction as the default of a whole number": (
        "- short: a\n  default: 1.5",
        ["6:12: fields[0].default: the default of short cannot be a number"],
    ),
    "a default for bytes": ("- binary: a\n  default: x", ["6:3: fields[0].default: binary takes no default"]),
    "options that are a list": (
        "- text: a\n  options: [b]",
        ["6:12: fields[0].options: must be a mapping, is a list"],
    ),
    "infinity as a default": (
        "- double: a\n  default: .inf",
        ["6:12: fields[0].default: infinity and not-a-number have no place in JSON"],
    ),
    "a group without fields": ("- object: g\n  fields: []", ["6:11: fields[0].fields: there are no fields"]),
    "a group with a table": (
        "- object: g\n  table: t\n  fields: [{text: a}]",
        ['6:3: fields[0].table: object takes no "table"'],
    ),
}

JOINS = {
    "foreign_key on belongs_to": (
        "- belongs_to: p\n  table: t\n  foreign_key: x\n  fields: [{text: a}]",
        [
            '7:3: fields[0].foreign_key: belongs_to takes "column", this row\'s reference to the other '
            'table; "foreign_key" is for has_one and has_many'
        ],
    ),
    "order_by on belongs_to": (
        "- belongs_to: p\n  table: t\n  order_by: []\n  fields: [{text: a}]",
        ["7:3: fields[0].order_by: belongs_to finds its row by key: it takes no order_by"],
    ),
    "column on has_many": (
        "- has_many: p\n  table: t\n  column: x\n  foreign_key: y\n  fields: [{text: a}]",
        [
            '7:3: fields[0].column: has_many takes "foreign_key", the other row\'s reference to this one; '
            '"column" is for belongs_to'
        ],
    ),
    "foreign_key on many_to_many": (
        "- many_to_many: p\n  table: t\n  foreign_key: x\n  fields: [{text: a}]",
        [
            '5:3: fields[0]: "through" is missing',
            '7:3: fields[0].foreign_key: many_to_many takes "through"; '
            '"foreign_key" is for has_one and has_many',
        ],
    ),
    "a limit on has_one": (
        "- has_one: p\n  table: t\n  foreign_key: x\n  limit: 1\n  fields: [{text: a}]",
        ["8:3: fields[0].limit: has_one is one row: it takes no limit"],
    ),
    "required on has_many": (
        "- has_many: p\n  table: t\n  foreign_key: x\n  required: true\n  fields: [{text: a}]",
        ["8:3: fields[0].required: has_many is never null: it takes no required"],
    ),
    "has_many without its keys": (
        "- has_many: p\n  fields: [{text: a}]",
        ['5:3: fields[0]: "table" is missing', '5:3: fields[0]: "foreign_key" is missing'],
    ),
    "a limit of nothing": (
        "- has_many: p\n  table: t\n  foreign_key: x\n  limit: 0\n  fields: [{text: a}]",
        ["8:10: fields[0].limit: must be at least 1"],
    ),
    "a limit that is true": (
        "- has_many: p\n  table: t\n  foreign_key: x\n  limit: true\n  fields: [{text: a}]",
        ["8:10: fields[0].limit: must be a whole number, is true or false"],
    ),
    "an unknown direction": (
        "- has_many: p\n  table: t\n  foreign_key: x\n  order_by: [{column: a, direction: down}]\n"
        "  fields: [{text: a}]",
        ['8:37: fields[0].order_by[0].direction: "down" is not one of asc, desc'],
    ),
    "a foreign key longer than the parent's key": (
        "- has_many: p\n  table: t\n  foreign_key: [x, y]\n  fields: [{text: a}]",
        ["7:16: fields[0].foreign_key: has 2 columns, but the parent's key has 1 column"],
    ),
    "a foreign key inside a group that does not fit": (
        "- object: g\n  fields:\n    - has_many: p\n      table: t\n      foreign_key: [x, y]\n"
        "      fields: [{text: a}]",
        ["9:20: fields[0].fields[0].foreign_key: has 2 columns, but the parent's key has 1 column"],
    ),
    "a foreign key that does not fit the join above": (
        "- has_one: p\n  table: t\n  foreign_key: x\n  primary_key: [a, b]\n  fields:\n"
        "    - has_many: q\n      table: u\n      foreign_key: c\n      fields: [{text: a}]",
        ["12:20: fields[0].fields[0].foreign_key: has 1 column, but the parent's key has 2 columns"],
    ),
    "a column that does not fit the other key": (
        "- belongs_to: p\n  table: t\n  column: x\n  primary_key: [a, b]\n  fields: [{text: a}]",
        ["7:11: fields[0].column: has 1 column, but primary_key has 2 columns"],
    ),
    "a junction whose keys do not fit": (
        "- many_to_many: p\n  table: t\n  primary_key: id\n"
        "  through: {table: j, left_key: [a, b], right_key: [c, d]}\n  fields: [{text: a}]",
        [
            "8:33: fields[0].through.left_key: has 2 columns, but the parent's key has 1 column",
            "8:52: fields[0].through.right_key: has 2 columns, but primary_key has 1 column",
        ],
    ),
    "a junction without its keys": (
        "- many_to_many: p\n  table: t\n  through: {table: j}\n  fields: [{text: a}]",
        [
            '7:12: fields[0].through: "left_key" is missing',
            '7:12: fields[0].through: "right_key" is missing',
        ],
    ),
}

TAGS = {
    "a custom field without its types": (
        "- custom: a",
        ['5:3: fields[0]: "postgres" is missing', '5:3: fields[0]: "opensearch" is missing'],
    ),
    "a custom field of no types": (
        "- custom: a\n  postgres: []\n  opensearch: ip",
        ["6:13: fields[0].postgres: names no type of Postgres"],
    ),
    "a mapping type that is none": (
        "- custom: a\n  postgres: inet\n  opensearch: No Type",
        ["7:15: fields[0].opensearch: must be the name of a mapping type, like scaled_float"],
    ),
    "half a point": ("- geo: a\n  lat: x", ['5:3: fields[0]: "lon" is missing']),
    "a point of too much": (
        "- geo: a\n  lat: x\n  lon: y\n  column: z",
        ['8:11: fields[0].column: geo takes either "lat" and "lon" or "column"'],
    ),
    "a point with a default": (
        "- geo: a\n  default: 1",
        ['6:3: fields[0].default: geo takes no "default"'],
    ),
    "a map without a kind of value": ("- map: a", ['5:3: fields[0]: "values" is missing']),
    "a map of what has no kind": (
        "- map: a\n  values: json",
        [
            "6:11: fields[0].values: the values of a map are one of text, identifier, keyword, enum, uuid, "
            "boolean, short, integer, long, float, double, decimal, date, timestamp"
        ],
    ),
    "a constant with a column": (
        "- constant: a\n  value: 1\n  column: b",
        ["7:3: fields[0].column: constant has a value of its own: it takes no column"],
    ),
    "a constant that no index holds": (
        f"- constant: a\n  value: {{b: [1{'0' * 400}]}}",
        ["6:15: fields[0].value.b[0]: is a number that no index can hold"],
    ),
    "transforms on a number": (
        "- integer: a\n  transforms: [trim]",
        [
            '6:3: fields[0].transforms: integer takes no "transforms": '
            "it works on enum, identifier, keyword, text"
        ],
    ),
}

AGGREGATES = {
    "a mean with a kind": (
        "- avg: n\n  table: t\n  foreign_key: a\n  column: b\n  value_type: long",
        ["9:3: fields[0].value_type: avg is always a double: it takes no value_type"],
    ),
    "ids without the kind of a key": (
        "- ids: n\n  table: t\n  foreign_key: a",
        ['5:3: fields[0]: "element_type" is missing'],
    ),
    "ids of a column": (
        "- ids: n\n  table: t\n  foreign_key: a\n  element_type: long\n  column: b",
        ["9:3: fields[0].column: ids are the keys of the related table: it takes no column"],
    ),
    "a least without its column and kind": (
        "- min: n\n  table: t\n  foreign_key: a",
        ['5:3: fields[0]: "column" is missing', '5:3: fields[0]: "value_type" is missing'],
    ),
    "distinct without a junction": (
        "- count: n\n  table: t\n  foreign_key: a\n  distinct: true",
        [
            "8:13: fields[0].distinct: every row is counted once without a junction: "
            "distinct goes with through"
        ],
    ),
    "the greatest json": (
        "- max: n\n  table: t\n  foreign_key: a\n  column: b\n  value_type: json",
        ["9:15: fields[0].value_type: json has no order: max gives none"],
    ),
    "an aggregate reached by nothing": (
        "- count: n\n  table: t",
        ['5:3: fields[0]: count takes either "foreign_key" or "through"'],
    ),
    "an aggregate reached both ways": (
        "- count: n\n  table: t\n  foreign_key: x\n  through: {table: j, left_key: a, right_key: b}",
        ['5:3: fields[0]: count takes either "foreign_key" or "through"'],
    ),
    "a count of a column": (
        "- count: n\n  table: t\n  foreign_key: x\n  column: c",
        [
            "8:3: fields[0].column: count counts rows: it takes no column; "
            "filter with is_not_null to count values"
        ],
    ),
    "a sum of nothing": (
        "- sum: n\n  table: t\n  foreign_key: x",
        ['5:3: fields[0]: "column" is missing', '5:3: fields[0]: "value_type" is missing'],
    ),
    "a sum that is a text": (
        "- sum: n\n  table: t\n  foreign_key: x\n  column: c\n  value_type: text",
        [
            "9:15: fields[0].value_type: sum gives a number: "
            "value_type is one of short, integer, long, float, double, decimal"
        ],
    ),
    "a required count": (
        "- count: n\n  table: t\n  foreign_key: x\n  required: true",
        [
            "8:3: fields[0].required: whether count can be null follows from what it is: "
            "it takes no required",
        ],
    ),
    "a soft delete by field of what has no fields": (
        "- count: n\n  table: t\n  foreign_key: x\n  soft_delete: {field: gone}",
        ['8:24: fields[0].soft_delete.field: there is no scalar field "gone" at this level'],
    ),
}

FILTERS = {
    "a filter without an operator": ("{column: a}", ['1: "op" is missing']),
    "a filter without a column": ("{op: is_null}", ['1: "column" is missing']),
    "an unknown operator": (
        "{column: a, op: equals}",
        [
            '17.op: "equals" is not one of is_null, is_not_null, eq, neq, lt, lte, gt, gte, like, ilike, in, '
            "not_in, between"
        ],
    ),
    "raw beside a column": (
        "{raw: x, column: a}",
        ['1: "raw" stands alone: it takes no column, op or value'],
    ),
    "empty raw": ('{raw: " "}', ["7.raw: is empty"]),
    "a value for a null check": ("{column: a, op: is_null, value: 1}", ["33.value: is_null takes no value"]),
    "a comparison without a value": ("{column: a, op: eq}", ['1: eq needs a "value"']),
    "a comparison with a list": (
        "{column: a, op: eq, value: [1]}",
        ["28.value: eq compares with one value, this is a list"],
    ),
    "a comparison with null": (
        "{column: a, op: eq, value: null}",
        ["28.value: eq never holds for null: use is_null or is_not_null"],
    ),
    "in with a scalar": ("{column: a, op: in, value: 1}", ["28.value: in takes a list, this is a number"]),
    "in with nothing": ("{column: a, op: in, value: []}", ["28.value: in takes a list that is not empty"]),
    "not_in with nothing": (
        "{column: a, op: not_in, value: []}",
        ["32.value: not_in takes a list that is not empty"],
    ),
    "between three": (
        "{column: a, op: between, value: [1, 2, 3]}",
        ["33.value: between takes a list of two: the lowest and the highest"],
    ),
    "like a number": (
        "{column: a, op: like, value: 1}",
        ["30.value: like takes a pattern, this is a number"],
    ),
}


@pytest.mark.parametrize("case", ROOT)
def test_at_the_root_is_refused(case: str) -> None:
    text, expected = ROOT[case]
    assert problems(text) == expected


@pytest.mark.parametrize("case", [*FIELDS, *JOINS, *AGGREGATES, *TAGS])
def test_in_the_fields_is_refused(case: str) -> None:
    text, expected = (FIELDS | JOINS | AGGREGATES | TAGS)[case]
    assert problems_of_fields(text) == expected


@pytest.mark.parametrize("case", FILTERS)
def test_in_the_filters_is_refused(case: str) -> None:
    text, expected = FILTERS[case]
    found = problems(f"version: 1\ntable: t\nfields: [{{text: a}}]\nfilters:\n- {text}")
    shifted = []
    for line in expected:
        place, message = line.split(": ", 1)
        column, _, key = place.partition(".")
        shifted.append(f"5:{int(column) + 2}: filters[0]{'.' + key if key else ''}: {message}")
    assert found == shifted
