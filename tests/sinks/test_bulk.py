"""Bulk bodies and answers, without a server."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flusso.document import Write
from flusso.errors import SinkRefused, SinkUnavailable
from flusso.sinks.search.bulk import UNVERSIONED, batches, outcome_of, safe_reason

BIG = 1 << 30
TWO = [Write("1", 7, b'{"a":1.00}'), Write("2", 7, None)]


def answer(*items: tuple[int, str | None, str]) -> str:
    rows = []
    for status, kind, reason in items:
        error = {"error": {"type": kind, "reason": reason}} if kind else {}
        rows.append({"index": {"status": status} | error})
    return json.dumps({"errors": True, "items": rows})


def test_a_document_goes_into_the_body_as_it_came() -> None:
    (batch,) = batches(TWO, max_count=10, max_bytes=BIG)
    assert batch.body == (
        b'{"index":{"_id":"1","version":7,"version_type":"external_gte"}}\n'
        b'{"a":1.00}\n'
        b'{"delete":{"_id":"2","version":7,"version_type":"external_gte"}}\n'
    )


def test_a_write_without_a_version_is_left_for_the_server_to_number() -> None:
    writes = [Write("1", UNVERSIONED, b"{}"), Write("2", UNVERSIONED, None)]
    (batch,) = batches(writes, max_count=10, max_bytes=BIG)
    assert batch.body == b'{"index":{"_id":"1"}}\n{}\n{"delete":{"_id":"2"}}\n'


def test_a_line_break_in_a_document_becomes_a_space() -> None:
    (batch,) = batches([Write("1", 7, b'{"a":\n1}')], max_count=10, max_bytes=BIG)
    assert batch.body.endswith(b'{"a": 1}\n')


@given(st.text())
def test_any_id_is_one_line_that_reads_back(id_: str) -> None:
    (batch,) = batches([Write(id_, 7, b"{}")], max_count=10, max_bytes=BIG)
    head, body, rest = batch.body.split(b"\n")
    assert (json.loads(head)["index"]["_id"], body, rest) == (id_, b"{}", b"")


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 300)), max_size=40), st.integers(1, 7), st.integers(1, 900)
)
def test_batches_keep_the_limits_and_lose_nothing(
    sizes: list[int | None], max_count: int, max_bytes: int
) -> None:
    writes = [Write(str(n), 1, None if size is None else b"x" * size) for n, size in enumerate(sizes)]
    found = list(batches(writes, max_count=max_count, max_bytes=max_bytes))
    assert [write for batch in found for write in batch.writes] == writes
    assert all(len(batch.writes) <= max_count for batch in found)
    assert all(len(batch.body) <= max_bytes or len(batch.writes) == 1 for batch in found)


def test_an_answer_without_errors_counts_writes_and_removals() -> None:
    outcome = outcome_of('{"errors":false,"items":[]}', TWO)
    assert (outcome.written, outcome.removed) == (1, 1)


def test_a_removal_of_what_is_not_there_is_removed() -> None:
    outcome = outcome_of(answer((201, None, ""), (404, None, "")), TWO)
    assert (outcome.written, outcome.removed) == (1, 1)


def test_a_version_conflict_is_superseded_and_tells_the_current_version() -> None:
    reason = "[1]: version conflict, current version [900] is higher than the one provided [7]"
    conflict = (409, "version_conflict_engine_exception", reason)
    outcome = outcome_of(answer(conflict, conflict), TWO)
    assert (outcome.superseded, outcome.newest_conflict) == (2, 900)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_an_item_the_server_has_no_room_for_is_busy(status: int) -> None:
    outcome = outcome_of(answer((201, None, ""), (status, "rejected_execution_exception", "full")), TWO)
    assert (outcome.written, outcome.busy) == (1, (TWO[1],))


def test_an_item_that_the_server_failed_at_is_told_from_one_that_it_has_no_room_for() -> None:
    outcome = outcome_of(answer((201, None, ""), (500, "null_pointer_exception", "x")), TWO)
    assert (outcome.taken, outcome.busy) == (TWO[0], ())
    assert outcome.failed == ((TWO[1], "null_pointer_exception"),)


def test_a_missing_ingest_pipeline_is_refused_as_a_whole() -> None:
    missing = (400, "illegal_argument_exception", "pipeline with id [clean] does not exist")
    with pytest.raises(SinkRefused, match="the ingest pipeline is not there"):
        outcome_of(answer(missing, (201, None, "")), TWO)


def test_a_refused_document_keeps_type_and_field_and_no_value() -> None:
    reason = (
        "failed to parse field [age] of type [integer] in document with id '1'."
        " Preview of field's value: 'secret'"
    )
    outcome = outcome_of(answer((400, "mapper_parsing_exception", reason), (200, None, "")), TWO)
    assert outcome.refused == ((TWO[0], "mapper_parsing_exception (field age)"),)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (
            "mapping set to strict, dynamic introduction of [zip] within [_doc] is not allowed",
            "t (field zip)",
        ),
        ('Document contains at least one immense term in field="k" (whose UTF8 …', "t (field k)"),
        ("object mapping for [o] tried to parse field [o] as object, but found a value", "t (field o)"),
        ('For input string: "failed to parse field [secret]"', "t"),
        ("anything else: secret", "t"),
    ],
)
def test_a_reason_is_cut_down_to_type_and_field(reason: str, expected: str) -> None:
    assert safe_reason("t", reason) == expected


@pytest.mark.parametrize("kind", ["index_not_found_exception", "invalid_index_name_exception"])
def test_a_missing_index_is_refused_as_a_whole(kind: str) -> None:
    with pytest.raises(SinkRefused, match="the index is gone"):
        outcome_of(answer((201, None, ""), (404, kind, "")), TWO)


def test_a_missing_privilege_is_refused_as_a_whole() -> None:
    with pytest.raises(SinkRefused, match="not allowed"):
        outcome_of(answer((403, "security_exception", "no permissions"), (201, None, "")), TWO)


@pytest.mark.parametrize("text", ["", "<html>", "{}", '{"items":[{}]}', answer((201, None, ""))])
def test_an_answer_that_is_none_is_unavailable_and_never_taken_for_success(text: str) -> None:
    with pytest.raises(SinkUnavailable):
        outcome_of(text, TWO)
