"""How tuples of key values go into a statement, come out of it, and join two tables.

Pure. Values travel as text arrays, one for each column, and come back as the text that the WAL has
for them, so a key read from a table equals the same key read from the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from flusso.catalog import Column, Table
from flusso.document import ESCAPE, MIN_HASHED_BYTES, SEPARATOR
from flusso.postgres.identifiers import literal, quote
from flusso.postgres.values import count_bytes, operator, print_text

_BITS = {"int2": 16, "int4": 32, "int8": 64}
_FRACTIONS = ("numeric", "float4", "float8")


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


def match_keys(alias: str, columns: Sequence[Column], sources: Sequence[Column] = (), first: int = 1) -> str:
    """Compare columns with the tuples in `$1`, `$2` …, in a form that an index on them serves.

    The tuples are values of `sources`, where those are other columns; they may come later than `$1`.
    """
    sources = sources or columns
    if len(columns) == 1 and not columns[0].is_array:
        name = f"{alias}.{quote(columns[0].name)}"
        return f"{name} {operator(columns[0], '=')} any(${first}::text[]::{sources[0].type}[])"
    same = " and ".join(
        f"{alias}.{quote(column.name)} {operator(column, '=')} k.k{n}"
        for n, column in enumerate(columns, first)
    )
    return f"exists (select from {_given_keys(sources, first)} where {same})"


def count_keys(columns: Sequence[Column]) -> str:
    """Give the SELECT that fails when a text in `$1`, `$2` … is no value of its column's type."""
    counts = ", ".join(f"count(k.k{n})" for n in range(1, len(columns) + 1))
    return f"select {counts} from {_given_keys(columns)}"


def _given_keys(columns: Sequence[Column], first: int = 1) -> str:
    """Give the tuples in `$1`, `$2` … as rows `k` with columns `k1`, `k2` …, each of its column's type."""
    numbered = list(enumerate(columns, first))
    arrays = ", ".join(f"${n}::text[]" for n, _ in numbered)
    names = ", ".join(f"k{n}" for n, _ in numbered)
    # Cast one by one: an array of arrays has no text array to come from, and unnest takes composites apart.
    values = ", ".join(f"k{n}::{column.type} as k{n}" for n, column in numbered)
    return f"(select {values} from unnest({arrays}) as k({names})) as k"


def select_texts(alias: str, columns: Sequence[Column]) -> str:
    """List the columns as the WAL prints them."""
    return ", ".join(print_text(column, f"{alias}.{quote(column.name)}") for column in columns)


def join_texts(alias: str, columns: Sequence[Column]) -> str:
    """Give the columns as one text, as `document.joined` writes it."""
    texts = [print_text(column, f"{alias}.{quote(column.name)}") for column in columns]
    return texts[0] if len(texts) == 1 else f" || {literal(SEPARATOR)} || ".join(map(_escaped, texts))


def _escaped(text: str) -> str:
    inner = f"replace({text}, {literal(ESCAPE).strip()}, {literal(ESCAPE * 2).strip()})"
    return f"replace({inner}, {literal(SEPARATOR)}, {literal(ESCAPE + SEPARATOR).strip()})"


def convert_texts(sources: Sequence[Column], targets: Sequence[Column]) -> str | None:
    """Give the SELECT that turns values in `$1`, `$2` … into those of the columns they are compared with.

    None where both print the same, as nearly always.
    """
    values = [_convert(f"k{n}", *pair) for n, pair in enumerate(zip(sources, targets, strict=True), 1)]
    names = [f"k{n}" for n in range(1, len(values) + 1)]
    if values == names:
        return None
    arrays = ", ".join(f"${n}::text[]" for n in range(1, len(values) + 1))
    return f"select distinct {', '.join(values)}\nfrom unnest({arrays}) as k({', '.join(names)})"


def _convert(text: str, source: Column, target: Column) -> str:
    if source.is_array or target.is_array:
        return text
    if source.base == "bpchar" and target.base != "bpchar":
        return f"rtrim({text}, ' ')"  # as Postgres compares them: blanks at the end are padding
    if source.base in _FRACTIONS and target.base in _BITS:
        number = f"{text}::numeric"
        limit = 2 ** (_BITS[target.base] - 1)
        is_one = f"{number} between {-limit} and {limit - 1} and {number} = trunc({number})"
        return f"case when {is_one} then {number}::int8::text end"
    return text


def find_limits(sources: Sequence[Column], targets: Sequence[Column]) -> tuple[int, ...] | None:
    """Give for each target column the first whole number too large for it, where the source holds larger
    ones, and 0 where it does not; None when no column needs it."""
    limits = tuple(
        2 ** (_BITS[target.base] - 1)
        if not source.is_array and _BITS.get(source.base, 0) > _BITS.get(target.base, 64)
        else 0
        for source, target in zip(sources, targets, strict=True)
    )
    return limits if any(limits) else None


def may_be_hashed(alias: str, columns: Sequence[Column]) -> str:
    """Give the condition that every row with a hashed id meets, and few others do."""
    texts = (print_text(column, f"{alias}.{quote(column.name)}") for column in columns)
    return f"{' + '.join(map(count_bytes, texts))} >= {MIN_HASHED_BYTES}"


def join_keys(left: str, left_columns: Sequence[Column], right: str, right_names: Sequence[str]) -> str:
    """Equate columns of two aliases pair by pair."""
    return " and ".join(
        f"{left}.{quote(column.name)} {operator(column, '=')} {right}.{quote(name)}"
        for column, name in zip(left_columns, right_names, strict=True)
    )
