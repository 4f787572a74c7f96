"""A stream that connects again: is it the same server, further on, and its slot where it was left?"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from streams import confirmed_lsn, prepare, streaming

from fix_postgres import Database
from flusso.capture.lineage import check_unchanged, read_lineage
from flusso.capture.stream import CaptureStream
from flusso.errors import (
    SlotAdvanced,
    SlotInvalidated,
    SourceError,
    SourceReplaced,
    SourceUnavailable,
    SourceWentBack,
    TimelineBehind,
    TimelineChanged,
)
from flusso.lsn import Lsn
from slots import invalidated
from waiting import wait_until

pytestmark = pytest.mark.postgres

_USERS = "create table users (id int primary key, boss int not null, name text)"


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"system_identifier": "1"}, SourceReplaced),
        ({"timeline": 2}, TimelineBehind),
        ({"lsn": Lsn(1 << 50)}, SourceWentBack),
        ({"lsn": Lsn(1)}, SlotAdvanced),
        ({}, None),
    ],
    ids=["replaced", "older timeline", "went back", "moved", "the same"],
)
def test_a_stream_begins_again_only_on_the_server_and_at_the_position_that_it_knows(
    database18: Database, changes: dict[str, Any], kind: type[SourceError] | None
) -> None:
    database18.execute(_USERS)
    spec = prepare(database18.dsn, "id")
    with database18.connect() as conn:
        known = replace(read_lineage(conn), **({"lsn": confirmed_lsn(database18.dsn)} | changes))
    spec = replace(spec, known=known)
    with pytest.raises(kind) if kind else nullcontext():
        with streaming(spec):
            pass


def test_a_standby_that_took_over_is_not_followed_without_a_new_look(database18: Database) -> None:
    with database18.connect() as conn:
        found = read_lineage(conn)
    with pytest.raises(TimelineChanged):
        check_unchanged(found, replace(found, timeline=found.timeline + 1), "it")


def test_a_slot_that_the_server_gives_up_under_its_reader_is_lost(database: Database) -> None:
    database.execute(_USERS)
    spec = prepare(database.dsn, "id")
    # A reader keeps its slot moving, unless nothing is confirmed.
    with streaming(spec) as (stream, position), invalidated(database, spec.slot):
        with pytest.raises(SourceUnavailable):
            wait_until(lambda: stream.wait(position, 0.1) and False, what="the sender to be ended")
        with pytest.raises(SlotInvalidated, match="lost"):
            CaptureStream(spec).start()
