"""Statements of the builder that fail: what may be said of it.

The server quotes the value that did not fit (`invalid input syntax for type integer: "…"`), and a row's
values belong in no message; so of an error about data only its name is told. The same goes for a document
that is more than the server can put together, and for a function that raises: another row would do neither.
All else says what the server says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from flusso.errors import RowUnfit
from flusso.postgres.connect import translated

_HINT = "look for a cast or a function in a raw filter, and for documents too large to be one value"
# Too long, or nested too deep. psycopg takes both for signs that the server is away.
_TOO_LARGE = ("54000", "54001")
_RAISED = ("P0", "38")
"""Classes of what functions of the user's own raise, in PL/pgSQL and in other languages."""
_OF_THE_SERVER = ("08", "53", "57", "58", "XX")
"""Classes of trouble that is nobody's row's, with whatever a newer server adds to them."""


@contextmanager
def building(doing: str) -> Iterator[None]:
    """Run a block whose psycopg exceptions become ours, without row values."""
    with translated(doing):
        try:
            yield
        except psycopg.Error as error:
            if not _is_of_a_row(error):
                raise
            # Neither is it chained: the cause would print the value after all.
            raise RowUnfit(f"{doing}: {_name(error)}", hint=_HINT) from None


def _is_of_a_row(error: psycopg.Error) -> bool:
    """Whether some row is to blame, and not the statement, the server or the way to it."""
    if isinstance(error, psycopg.DataError | psycopg.IntegrityError):
        return True
    state = error.sqlstate or ""
    return state in _TOO_LARGE or _is_raised(state) or _is_too_large_at_once(error)


def _is_raised(state: str) -> bool:
    """Whether a function raised it, with a code of its class or one that it made up."""
    if state[:2] in _RAISED:
        return True
    try:
        psycopg.errors.lookup(state)
    except KeyError:
        return bool(state) and state[:2] not in _OF_THE_SERVER
    return False


def _is_too_large_at_once(error: psycopg.Error) -> bool:
    """Whether more than a gigabyte was asked for in one piece. The code is that of every internal error, and
    the text is in the server's language; where it is raised tells it apart."""
    return error.sqlstate == "XX000" and (error.diag.source_file or "").endswith("mcxt.c")


def _name(error: psycopg.Error) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).strip("_").lower()
    return f"{words} (SQLSTATE {error.sqlstate})"
