"""How changes are packed into partitions that Spark can ship. No Spark session."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flusso.engine.source_worker import PARTITION_BYTES, spread

BIG = bytes(PARTITION_BYTES // 2 + 1)


@given(st.lists(st.binary(min_size=1, max_size=50)), st.integers(min_value=1, max_value=8))
def test_every_payload_is_in_one_partition_and_in_order(payloads: list[bytes], tasks: int) -> None:
    packs = list(spread(payloads, tasks))
    assert [payload for pack in packs for payload in pack] == payloads
    assert all(packs)


def test_few_changes_are_one_partition_for_one_task() -> None:
    assert list(spread([b"a", b"b", b"c"], 1)) == [(b"a", b"b", b"c")]


def test_few_changes_of_many_bytes_are_still_partitions_that_can_be_shipped() -> None:
    assert list(spread([BIG, BIG, b"small"], 1)) == [(BIG,), (BIG, b"small")]
