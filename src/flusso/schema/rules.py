"""What the file alone can show wrong: which keys a tag carries, names, key lengths.

Used by `fields`, which does the reading. What needs the database (does the column exist, does its type
fit) is the business of `check`.
"""

from __future__ import annotations

from collections.abc import Mapping

from flusso.diagnostic import Code
from flusso.schema.model import TEXT_KINDS, AggregateKind, Columns, JoinKind, ScalarKind
from flusso.schema.node import Node, Problems
from flusso.schema.section import Section, read_text

_SCALAR = {"column", "required", "default", "options"}
_RELATED = {"table", "schema", "primary_key", "filters", "soft_delete", "options"}
_JOIN = _RELATED | {"fields"}
_REACHED = _RELATED | {"foreign_key", "through", "distinct"}

AGGREGATE_NEEDS: dict[AggregateKind, tuple[str, ...]] = {
    AggregateKind.COUNT: (),
    AggregateKind.SUM: ("column", "value_type"),
    AggregateKind.AVG: ("column",),
    AggregateKind.MIN: ("column", "value_type"),
    AggregateKind.MAX: ("column", "value_type"),
    AggregateKind.IDS: ("element_type",),
}
"""What each aggregate must say besides its table and the way to it."""

_CARRIES: dict[str, set[str]] = {
    **{kind: _SCALAR | ({"transforms"} if kind in TEXT_KINDS else set()) for kind in ScalarKind},
    ScalarKind.ENUM: _SCALAR | {"transforms", "variants"},
    ScalarKind.BINARY: _SCALAR - {"default"},
    "custom": _SCALAR | {"postgres", "opensearch"},
    "geo": {"column", "lat", "lon", "required", "options"},
    "map": {"column", "values", "required", "options"},
    "constant": {"value", "options"},
    "object": {"fields", "options"},
    JoinKind.BELONGS_TO: _JOIN | {"column", "required"},
    JoinKind.HAS_ONE: _JOIN | {"foreign_key", "required", "order_by"},
    JoinKind.HAS_MANY: _JOIN | {"foreign_key", "order_by", "limit"},
    JoinKind.MANY_TO_MANY: _JOIN | {"through", "order_by", "limit"},
    **{kind: _REACHED | set(needs) for kind, needs in AGGREGATE_NEEDS.items()},
}
TAGS = frozenset(_CARRIES)
JOIN_TAGS: frozenset[str] = frozenset(JoinKind)
AGGREGATE_TAGS: frozenset[str] = frozenset(AggregateKind)

_SIBLINGS = set().union(*_CARRIES.values())

_TO_ONE_LIMIT = "{tag} is one row: it takes no limit"
_ARRAY_REQUIRED = "{tag} is never null: it takes no required"
_AGGREGATE_REQUIRED = "whether {tag} can be null follows from what it is: it takes no required"
_REASONS: dict[tuple[str, str], str] = {
    ("belongs_to", "foreign_key"): 'belongs_to takes "column", this row\'s reference to the other table; '
    '"foreign_key" is for has_one and has_many',
    ("belongs_to", "through"): 'belongs_to takes "column"; a junction is for many_to_many',
    ("belongs_to", "order_by"): "belongs_to finds its row by key: it takes no order_by",
    ("belongs_to", "limit"): _TO_ONE_LIMIT,
    ("has_one", "limit"): _TO_ONE_LIMIT,
    ("has_one", "column"): 'has_one takes "foreign_key", the other row\'s reference to this one; '
    '"column" is for belongs_to',
    ("has_many", "column"): 'has_many takes "foreign_key", the other row\'s reference to this one; '
    '"column" is for belongs_to',
    ("has_one", "through"): 'has_one takes "foreign_key"; a junction is for many_to_many',
    ("has_many", "through"): 'has_many takes "foreign_key"; a junction is for many_to_many',
    ("has_many", "required"): _ARRAY_REQUIRED,
    ("many_to_many", "required"): _ARRAY_REQUIRED,
    (
        "many_to_many",
        "foreign_key",
    ): 'many_to_many takes "through"; "foreign_key" is for has_one and has_many',
    ("many_to_many", "column"): 'many_to_many takes "through"; "column" is for belongs_to',
    ("count", "column"): "count counts rows: it takes no column; filter with is_not_null to count values",
    ("count", "value_type"): "count is always a long: it takes no value_type",
    ("avg", "value_type"): "avg is always a double: it takes no value_type",
    ("ids", "column"): "ids are the keys of the related table: it takes no column",
    ("ids", "value_type"): 'ids takes "element_type", the kind of each key',
    **{(kind, "required"): _AGGREGATE_REQUIRED for kind in AggregateKind},
    ("object", "required"): "object is never null: it takes no required",
    ("constant", "column"): "constant has a value of its own: it takes no column",
    ("binary", "default"): "binary takes no default",
}

_METADATA = frozenset(
    {"_id", "_index", "_source", "_routing", "_type", "_field_names", "_ignored", "_nested_path"}
    | {"_doc_count", "_seq_no", "_version", "_primary_term", "_size", "_tier", "_data_stream_timestamp"}
)
_MAX_FIELD_BYTES = 255


def carried(tag: str) -> set[str]:
    """Name the keys that a field of this tag may have, the tag included."""
    return _CARRIES[tag] | {tag}


def refused(tag: str) -> Mapping[str, str]:
    """Say of each key that belongs to other tags why this one does not take it."""
    reasons = {
        key: f'{tag} takes no "{key}": it works on {", ".join(sorted(TEXT_KINDS))}'
        if key == "transforms"
        else f'{tag} takes no "{key}"'
        for key in _SIBLINGS - carried(tag)
    }
    own = {key: reason.format(tag=tag) for (of, key), reason in _REASONS.items() if of == tag}
    return reasons | own


def read_field_name(node: Node, problems: Problems, *, is_root: bool) -> str:
    """Read the key that a field has in the document."""
    name = read_text(node, problems)
    if name is None:
        return ""
    if "." in name:
        problems.at(node, "a field name has no dot: use object to group fields", Code.INVALID_NAME)
    elif name != name.strip():
        problems.at(node, "a field name neither begins nor ends with a space", Code.INVALID_NAME)
    elif len(name.encode()) > _MAX_FIELD_BYTES:
        problems.at(node, f"a field name has at most {_MAX_FIELD_BYTES} bytes", Code.INVALID_NAME)
    elif is_root and name in _METADATA:
        problems.at(node, f'"{name}" is a name that search servers keep for themselves', Code.INVALID_NAME)
    return name


def check_length(section: Section, key: str, columns: Columns, against: str, other: Columns) -> None:
    """Note a reference that has not as many columns as the key it refers to, when both are known."""
    if columns and other and len(columns) != len(other):
        section.wrong(
            f"has {_columns(columns)}, but {against} has {_columns(other)}", key, code=Code.KEY_LENGTH
        )


def _columns(columns: Columns) -> str:
    return "1 column" if len(columns) == 1 else f"{len(columns)} columns"
