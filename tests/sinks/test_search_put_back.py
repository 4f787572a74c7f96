"""What a real search server holds under the name of a generation: the one that was made, or another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from flusso.sinks.base import Sink
from search_place import BOOK, SCHEMA, TARGET, Place
from search_snapshots import snapshot_of

pytestmark = pytest.mark.opensearch

KEEPING = replace(TARGET, keeps_references=True)
DOCUMENTS = f"@books_{'a' * 12}_1"
REFERENCES = f"{DOCUMENTS}_refs"


@pytest.fixture
def sink(place: Place) -> Iterator[Sink]:
    opened = place.spec().open()
    opened.ensure(KEEPING, SCHEMA)
    opened.write(KEEPING, [BOOK], refresh=True)
    yield opened
    opened.close()


def make_anew(place: Place) -> None:
    place.ask("DELETE", f"/{DOCUMENTS}")
    place.ask("PUT", f"/{DOCUMENTS}")


def put_back(place: Place, name: str, *, over_closed: bool = False) -> None:
    with snapshot_of(place.spec(), name.replace("@", place.prefix)) as snapshot:
        snapshot.put_back(name.replace("@", place.prefix), over_closed=over_closed)


OTHERS: dict[str, tuple[Callable[[Place], None], list[bool]]] = {
    "made anew": (make_anew, [True, False]),
    "restored": (lambda place: put_back(place, DOCUMENTS), [True, False]),
    "restored over a closed one": (lambda place: put_back(place, DOCUMENTS, over_closed=True), [True, False]),
    "its references restored": (lambda place: put_back(place, REFERENCES), [False, True]),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_was_put_in_the_place_of_a_generation_has_another_uuid(
    place: Place, sink: Sink, what: str
) -> None:
    step, differs = OTHERS[what]
    before = sink.uuids(KEEPING)
    step(place)
    after = sink.uuids(KEEPING)
    assert before is not None
    assert after is not None
    assert [was != found for was, found in zip(before, after, strict=True)] == differs


def test_a_generation_that_is_used_closed_and_opened_keeps_its_uuids(place: Place, sink: Sink) -> None:
    before = sink.uuids(KEEPING)
    sink.publish(KEEPING)
    sink.ensure(replace(KEEPING, term=5), SCHEMA)
    for step in ("_close", "_open?wait_for_active_shards=1", "_forcemerge"):
        place.ask("POST", f"/{DOCUMENTS}/{step}")
    assert sink.uuids(KEEPING) == before
    assert sink.uuids(TARGET) == (before or ())[:1]
