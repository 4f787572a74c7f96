"""What is missing in a real search server for a while or for good, and what that is not taken for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from flusso.document import Refusal
from flusso.errors import SinkUnavailable
from flusso.sinks.base import Sink
from search_place import BOOK, SCHEMA, TARGET, Place

pytestmark = pytest.mark.opensearch

CONCRETE = f"@books_{'a' * 12}_1"
REFUSAL = Refusal("books", "1", 5, "search", "too long", 1.5)


@pytest.fixture
def sink(place: Place) -> Iterator[Sink]:
    opened = place.spec().open()
    opened.ensure(TARGET, SCHEMA)
    yield opened
    opened.close()


def take_away(place: Place, name: str) -> None:
    """Let no node have the shards of an index. One that has them keeps them: they are made anew for none."""
    (found,) = place.ask("GET", f"/{name}").values()
    place.ask("DELETE", f"/{name}")
    nowhere = {"number_of_replicas": 0, "routing.allocation.require._name": "nobody"}
    made = {"mappings": found["mappings"], "aliases": found["aliases"], "settings": {"index": nowhere}}
    place.ask("PUT", f"/{name}?wait_for_active_shards=0&timeout=1s", made)
    shards = place.ask("GET", f"/_cat/shards/{name}?format=json")
    assert {shard["state"] for shard in shards} == {"UNASSIGNED"}


def test_a_document_of_a_shard_that_is_away_is_not_absent(place: Place, sink: Sink) -> None:
    sink.write(TARGET, [BOOK], refresh=False)
    take_away(place, CONCRETE)
    with pytest.raises(SinkUnavailable, match=r'sink "search" could not read from index "books" \(no_shard'):
        sink.read(TARGET, ["1"])


def test_a_refused_document_of_a_shard_that_is_away_is_not_released_unseen(place: Place, sink: Sink) -> None:
    sink.quarantine([REFUSAL])
    take_away(place, "@flusso_quarantine")
    with pytest.raises(SinkUnavailable, match=r'could not read from index ".*flusso_quarantine" \(no_shard'):
        sink.release("books", ["1"], 6)


def test_a_generation_without_the_references_that_it_kept_is_not_there(place: Place, sink: Sink) -> None:
    keeping = replace(TARGET, keeps_references=True)
    sink.ensure(keeping, SCHEMA)
    before = sink.uuids(keeping)
    assert before is not None
    place.ask("DELETE", f"/{CONCRETE}_refs")
    assert (sink.uuids(keeping), sink.uuids(TARGET)) == (None, before[:1])
