"""Statements of the builder that fail: what may be said of it.

The server quotes the value that did not fit (`invalid input syntax for type integer: "…"`), and a row's
values belong in no message; so of an error about data only its name is told. All else says what the
server says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from flusso.errors import RowUnfit
from flusso.postgres.connect import translated


@contextmanager
def building(doing: str) -> Iterator[None]:
    """Run a block whose psycopg exceptions become ours, without row values."""
    with translated(doing):
        try:
            yield
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            # Neither is it chained: the cause would print the value after all.
            raise RowUnfit(f"{doing}: {_name(error)}", hint="look for a cast in a raw filter") from None


def _name(error: psycopg.Error) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
    return f"{words} (SQLSTATE {error.sqlstate})"
