"""The SQL of a map: an object whose keys are data, cut down to what the index can take.

Pure. A json value that is no object gives null. An entry is left out when its key can be no field name
(empty, blank, with a dot, over 512 bytes), and its value becomes null when the kind cannot hold it: an
object, or a list within a list, always. What is left that does not fit, a word where numbers are
declared, is kept in the document and ignored by the mapping.
"""

from __future__ import annotations

from flusso.builder.level import Level
from flusso.postgres.json_text import as_jsonb
from flusso.postgres.values import count_bytes
from flusso.schema.model import NUMBER_KINDS, TEXT_KINDS, Map, ScalarKind

MAP_TYPES = frozenset({"json", "jsonb", "hstore"})

_NULL = "'null'"
_MAX_KEY_BYTES = 512
_MAX_NUMBER = 400
"""Characters; a search server reads no number of a thousand digits, and a double has 309 before the point."""


def map_value(item: Map, level: Level) -> str:
    """Give the expression of a map."""
    column, name = level.column(item.column)
    value = _value("e.value", item.values, _list(item.values))
    entries = f"""string_agg(to_json(e.key)::text || ':' || {value}, ',' order by e.key collate "C")"""
    return (
        f"(select (select ('{{' || coalesce({entries}, '') || '}}')::json from jsonb_each(m.j) as e"
        f" where btrim(e.key) <> '' and strpos(e.key, '.') = 0"
        f" and {count_bytes('e.key')} <= {_MAX_KEY_BYTES})"
        f" from (select {as_jsonb(column, name)} as j) as m where jsonb_typeof(m.j) = 'object')"
    )


def _list(kind: ScalarKind) -> str:
    return (
        f"(select '[' || coalesce(string_agg({_value('i.v', kind, _NULL)}, ',' order by i.n), '') || ']'"
        " from jsonb_array_elements(e.value) with ordinality as i(v, n))"
    )


def _value(value: str, kind: ScalarKind, of_list: str) -> str:
    """Give the JSON text of one value, `null` for a type of value that the kind never is."""
    text = f"{value}::text"
    short = f"case when length({text}) <= {_MAX_NUMBER} then {text} else {_NULL} end"
    word = f"case when {value} #>> '{{}}' in ('true', 'false') then {text} else {_NULL} end"
    is_word = kind in TEXT_KINDS or kind is ScalarKind.UUID
    is_flag = kind is ScalarKind.BOOLEAN
    cases = {
        "array": of_list,
        "object": _NULL,
        "number": _NULL if is_flag else short,
        "boolean": text if is_word or is_flag else _NULL,
        "string": word if is_flag else short if kind in NUMBER_KINDS else text,
    }
    written = " ".join(f"when '{name}' then {case}" for name, case in cases.items())
    return f"case jsonb_typeof({value}) {written} else {_NULL} end"
