"""How tuples of key values go into a statement, come out of it, and join two tables.

Pure. Values travel as text arrays, one for each column, and come back as the text that the WAL has
for them, so a key read from a table equals the same key read from the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from flusso.catalog import Column, Table
from flusso.document import MIN_HASHED_BYTES
from flusso.postgres.identifiers import quote
from flusso.postgres.values import operator, print_text


def key_arrays(keys: Sequence[Sequence[str]]) -> list[str]:
    """Turn tuples into the parameters `$1`, `$2` …: one array literal for each column."""
    return [array_text(column) for column in zip(*keys, strict=True)]


def array_text(texts: Sequence[str]) -> str:
    """Write an array as Postgres reads it; a tenth of what adapting a list costs."""
    if not texts:
        return "{}"
    joined = '","'.join(texts)
    if "\\" in joined or joined.count('"') != 2 * (len(texts) - 1):
        joined = '","'.join(text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return '{"' + joined + '"}'


def columns_of(table: Table, names: Sequence[str]) -> tuple[Column, ...]:
    """Look the columns up."""
    return tuple(table.columns[name] for name in names)


def match_keys(alias: str, columns: Sequence[Column]) -> str:
    """Compare columns with the tuples in `$1`, `$2` …, in a form that an index on them serves."""
    if len(columns) == 1 and not columns[0].is_array:
        (column,) = columns
        return f"{alias}.{quote(column.name)} {operator(column, '=')} any($1::text[]::{column.type}[])"
    numbered = list(enumerate(columns, 1))
    arrays = ", ".join(f"${n}::text[]" for n, _ in numbered)
    names = ", ".join(f"k{n}" for n, _ in numbered)
    # Cast one by one: an array of arrays has no text array to come from, and unnest takes composites apart.
    values = ", ".join(f"k{n}::{column.type} as k{n}" for n, column in numbered)
    same = " and ".join(f"{alias}.{quote(c.name)} {operator(c, '=')} k.k{n}" for n, c in numbered)
    return f"exists (select from (select {values} from unnest({arrays}) as k({names})) as k where {same})"


def select_texts(alias: str, columns: Sequence[Column]) -> str:
    """List the columns as the WAL prints them."""
    return ", ".join(print_text(column, f"{alias}.{quote(column.name)}") for column in columns)


def may_be_hashed(alias: str, columns: Sequence[Column]) -> str:
    """Give the condition that every row with a hashed id meets, and few others do."""
    texts = (print_text(column, f"{alias}.{quote(column.name)}") for column in columns)
    return f"{' + '.join(f'octet_length({text})' for text in texts)} >= {MIN_HASHED_BYTES}"


def join_keys(left: str, left_columns: Sequence[Column], right: str, right_names: Sequence[str]) -> str:
    """Equate columns of two aliases pair by pair."""
    return " and ".join(
        f"{left}.{quote(column.name)} {operator(column, '=')} {right}.{quote(name)}"
        for column, name in zip(left_columns, right_names, strict=True)
    )
