"""Schema files that are wrong by themselves: joins, aggregates and filters.

By what is wrong, the text and what is said of it. Read by `test_rules` and by the test of the JSON Schema.
"""

from __future__ import annotations

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
