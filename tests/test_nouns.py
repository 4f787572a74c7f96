"""The nouns: positions, versions, ids and errors keep their promises."""

from __future__ import annotations

import hashlib
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flusso.document import MIN_HASHED_BYTES, id_text, is_hashed, is_id_alone, key_of
from flusso.errors import SlotLost, SourceRefused, from_text, to_line
from flusso.lsn import Lsn, Version

printable = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))  # as Postgres has it
texts = printable | st.text("|\\~a", max_size=6) | st.text("~sha256-0é", min_size=60, max_size=300)
keys = st.lists(texts, min_size=1, max_size=4).map(tuple)


@given(keys)
def test_an_id_gives_its_key_again_unless_it_is_a_hash(key: tuple[str, ...]) -> None:
    found = key_of(id_text(key), len(key))
    assert is_hashed(found) or found == key


@given(keys)
def test_a_key_taken_from_an_id_has_the_same_id(key: tuple[str, ...]) -> None:
    assert id_text(key_of(id_text(key), len(key))) == id_text(key)


@given(st.text() | texts, st.integers(1, 3))
def test_any_text_that_a_sink_has_for_an_id_is_that_of_its_key(text: str, columns: int) -> None:
    assert id_text(key_of(text, columns)) == text


@pytest.mark.parametrize(("text", "columns"), [("~x", 1), ("", 1), ("\x00", 1), ("a\\", 2), ("a\\b|c", 2)])
def test_an_id_that_no_key_has_is_an_id_alone_and_no_hash(text: str, columns: int) -> None:
    key = key_of(text, columns)
    assert (id_text(key), is_id_alone(key), is_hashed(key)) == (text, True, False)


@given(keys, keys)
def test_two_keys_of_one_table_never_share_an_id(left: tuple[str, ...], right: tuple[str, ...]) -> None:
    if len(left) == len(right) and left != right:
        assert id_text(left) != id_text(right)


@given(keys)
def test_an_id_has_1_to_512_bytes(key: tuple[str, ...]) -> None:
    assert 1 <= len(id_text(key).encode()) <= 512


@given(st.lists(st.text("|\\~é", max_size=120), min_size=1, max_size=32).map(tuple))
def test_a_short_key_has_no_hashed_id(key: tuple[str, ...]) -> None:
    if sum(len(part.encode()) for part in key) < MIN_HASHED_BYTES:
        assert not is_hashed(key_of(id_text(key), len(key)))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (("7",), "7"),
        (("",), "~"),
        (("~",), "~~"),
        (("\\x00ff",), "\\x00ff"),
        (("a|b", "c\\"), "a\\|b|c\\\\"),
        (("", ""), "|"),
        (("a" * 512,), "a" * 512),
        (("a" * 513,), "~sha256-" + hashlib.sha256(b"a" * 513).hexdigest()),
        (("~sha256-" + "0" * 64,), "~~sha256-" + "0" * 64),
    ],
)
def test_ids_are_as_documented(key: tuple[str, ...], text: str) -> None:
    assert id_text(key) == text


@given(st.integers(0, 2**53 - 1))
def test_a_position_survives_its_text(position: int) -> None:
    assert Lsn.parse(str(Lsn(position))) == position


def test_a_later_timeline_is_always_the_higher_version() -> None:
    assert Version.of(2, Lsn(1)) > Version.of(1, Lsn(2**53 - 1))


def test_a_version_prints_and_serialises_as_a_plain_number() -> None:
    version = Version.of(1, Lsn(5))
    assert f"{version}" == str(version) == json.dumps(version) == str(2**53 + 5)


@pytest.mark.parametrize("timeline", [0, 1024])
def test_a_timeline_that_does_not_fit_is_refused(timeline: int) -> None:
    with pytest.raises(SourceRefused):
        Version.of(timeline, Lsn(1))


def test_an_error_is_found_again_in_a_foreign_traceback() -> None:
    error = SlotLost('slot "a" is lost', hint="run flusso reindex --all")
    found = from_text(f"py4j: something\n  at x.y(Z.java)\nRuntimeError: {to_line(error)}\n  more")
    assert isinstance(found, SlotLost)
    assert str(found) == str(error)


def test_a_text_without_an_error_line_gives_none() -> None:
    assert from_text("flusso-error {broken") is None


def test_an_error_survives_pickling_with_its_hint() -> None:
    copy = pickle.loads(pickle.dumps(SlotLost("gone", hint="reindex")))
    assert type(copy) is SlotLost
    assert (copy.message, copy.hint) == ("gone", "reindex")
