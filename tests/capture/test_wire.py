from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flusso.capture import wire
from flusso.capture.transactions import Row
from flusso.catalog import TableName
from flusso.change import ALL, UNCHANGED, Change, Operation
from flusso.errors import DecodeError
from flusso.lsn import Lsn

_values = st.none() | st.lists(st.none() | st.just(UNCHANGED) | st.text(max_size=5), max_size=3).map(tuple)
_rows = st.tuples(
    st.sampled_from([TableName("public", "users"), TableName("shop", "users"), TableName("shop", "tags")]),
    st.sampled_from([operation.value for operation in Operation]),
    _values,
    _values,
    st.integers(0, 2**63 - 1),
    st.integers(1, 2**40),
    st.sampled_from([ALL, 1, 1 << 61]),
)


@given(st.lists(_rows, max_size=6))
def test_changes_come_back_as_they_were_sent(rows: list[Row]) -> None:
    assert list(wire.decode(wire.encode(rows))) == [
        Change(table, Operation(operation), old, new, Lsn(commit), ordinal, changed=changed)
        for table, operation, old, new, commit, ordinal, changed in rows
    ]


def test_no_changes_are_no_bytes() -> None:
    assert wire.encode([]) == b""


def test_bytes_that_are_no_arrow_stream_raise_decode_error() -> None:
    with pytest.raises(DecodeError):
        list(wire.decode(b"not arrow at all"))
