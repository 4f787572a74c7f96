"""Names of generations, and the order of steps when readers move to a new one."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from flusso.errors import SinkUnavailable
from flusso.sinks.base import IndexTarget
from flusso.sinks.search.generations import Names, publish_generation
from flusso.sinks.search.server import Answer, Server

NAMES = Names("p_")
DIGEST = "0123456789abcdef" * 4
TARGET = IndexTarget("books", DIGEST, 3)


class Recorder:
    """A cluster where the first generation is published."""

    def __init__(self, failed: int = 0) -> None:
        self.failed = failed
        self.steps: list[tuple[str, str, object]] = []

    def send(self, method: str, path: str, params: Mapping[str, str], body: bytes | None) -> Answer:
        self.steps.append((method, path, json.loads(body) if body else None))
        if path == "/_alias/p_books":
            return Answer(200, json.dumps({"p_books_aaaaaaaaaaaa_1": {}}))
        return Answer(200, json.dumps({"_shards": {"failed": self.failed}}))

    def close(self) -> None:
        """Nothing is open."""


def published() -> list[tuple[str, str, object]]:
    recorder = Recorder()
    publish_generation(Server(recorder, "s", 0), NAMES, TARGET, "10s")
    return recorder.steps


def test_names_carry_prefix_digest_and_generation() -> None:
    assert NAMES.concrete(TARGET) == "p_books_0123456789ab_3"
    assert (NAMES.readers("books"), NAMES.meta) == ("p_books", "p_flusso_meta")


def test_the_name_for_writers_cannot_be_an_index() -> None:
    assert NAMES.writers(TARGET) != NAMES.writers(TARGET).lower()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("p_books_0123456789ab_3", 3),
        ("p_books_old_0123456789ab_3", None),
        ("books_0123456789ab_3", None),
        ("p_books", None),
        ("p_books_0123456789ab_x", None),
    ],
)
def test_a_name_is_ours_only_when_all_of_it_fits(name: str, expected: int | None) -> None:
    assert NAMES.generation_of("books", name) == expected


def test_readers_move_in_one_request_if_the_index_is_ours_to_write() -> None:
    concrete = NAMES.concrete(TARGET)
    (swap,) = [body for _, path, body in published() if path == "/_aliases"]
    assert swap == {
        "actions": [
            {"remove": {"index": concrete, "alias": NAMES.writers(TARGET), "must_exist": True}},
            {"add": {"index": concrete, "alias": NAMES.writers(TARGET)}},
            {"remove": {"index": "p_books_aaaaaaaaaaaa_1", "alias": "p_books"}},
            {"add": {"index": concrete, "alias": "p_books"}},
        ]
    }


def test_the_new_generation_is_refreshed_before_readers_see_it() -> None:
    steps = [(method, path) for method, path, _ in published()]
    assert steps.index(("POST", f"/{NAMES.concrete(TARGET)}/_refresh")) < steps.index(("POST", "/_aliases"))


def test_readers_stay_when_a_shard_of_the_new_generation_was_not_refreshed() -> None:
    recorder = Recorder(failed=1)
    with pytest.raises(SinkUnavailable, match="all of its shards"):
        publish_generation(Server(recorder, "s", 0), NAMES, TARGET, "10s")
    assert "/_aliases" not in [path for _, path, _ in recorder.steps]
