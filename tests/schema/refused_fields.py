"""Schema files that are wrong by themselves: at the root, and in the fields that columns fill.

By what is wrong, the text and what is said of it. Read by `test_rules` and by the test of the JSON Schema.
"""

from __future__ import annotations

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
