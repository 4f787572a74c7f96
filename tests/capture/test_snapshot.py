from __future__ import annotations

import pytest

from flusso.capture.snapshot import Snapshot, parse_snapshot
from flusso.errors import DecodeError


def test_a_snapshot_is_read_as_postgres_prints_it() -> None:
    assert parse_snapshot("10:20:12,15") == Snapshot(10, 20, frozenset({12, 15}))
    assert parse_snapshot("10:10:") == Snapshot(10, 10, frozenset())


@pytest.mark.parametrize("text", ["", "1:2", "a:b:", "1:2:x", "1:2:3:4"])
def test_a_malformed_snapshot_raises_decode_error(text: str) -> None:
    with pytest.raises(DecodeError):
        parse_snapshot(text)


@pytest.mark.parametrize(("xid", "is_seen"), [(9, True), (10, True), (12, False), (19, True), (20, False)])
def test_a_running_or_later_transaction_is_not_seen(xid: int, is_seen: bool) -> None:
    assert Snapshot(10, 20, frozenset({12})).sees(xid) is is_seen


@pytest.mark.parametrize("epoch", [1, 5])
def test_a_short_xid_is_widened_to_the_nearest_one(epoch: int) -> None:
    base = epoch << 32
    snapshot = Snapshot(base - 5, base + 5, frozenset({base - 2}))
    assert snapshot.widen(2**32 - 3) == base - 3
    assert snapshot.sees(2**32 - 3)
    assert not snapshot.sees(2**32 - 2)
    assert snapshot.sees(4)
    assert not snapshot.sees(5)
