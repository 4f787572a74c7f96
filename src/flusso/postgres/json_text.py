"""Read a column as `jsonb`, whatever its text holds.

Pure. `json` keeps what it was given, and some of that `jsonb` refuses with an error, which would end the
statement for all rows: the escape of a zero character, half a surrogate pair, a number beyond a numeric.
Those count as null.
"""

from __future__ import annotations

from flusso.catalog import Column
from flusso.postgres.identifiers import literal

# Escaped backslashes and whole surrogate pairs first, so that what they are made of is not met alone.
_HARMLESS = literal(r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}").strip()
_REFUSED = literal(r"\\u(0000|[dD][89a-fA-F])").strip()
_STRINGS = literal(r'"([^"\\]|\\.)*"').strip()
_TOO_LARGE = literal(r"[eE][-+]?[0-9]{4}|([0-9]{250}){8}").strip()


def as_jsonb(column: Column, expression: str) -> str:
    """Give the column as jsonb; other types than json have a cast that always works."""
    if column.base == "jsonb":
        return expression
    if column.base != "json":
        return f"{expression}::jsonb"
    text = f"{expression}::text"
    return (
        f"case when regexp_replace({text}, {_HARMLESS}, '', 'g') !~ {_REFUSED}"
        f" and regexp_replace({text}, {_STRINGS}, '', 'g') !~ {_TOO_LARGE}"
        f" then {expression}::jsonb end"
    )
