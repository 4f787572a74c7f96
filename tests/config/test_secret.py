"""Where a secret comes from, and that it does not show."""

from __future__ import annotations

import pickle

import pytest

from flusso.config.secret import Resolver, Secret, reserved_variable
from flusso.config.toml_nodes import read_toml
from flusso.schema.node import Node, Problems


def node(toml: str) -> Node:
    root = read_toml(f"value = {toml}", Problems("f"))
    assert root is not None
    assert isinstance(root.value, dict)
    return root.value["value"]


def resolve(toml: str | None, env: dict[str, str]) -> tuple[str | None, list[str]]:
    problems = Problems("f")
    found = Resolver(env, problems).resolve(node(toml) if toml else None, reserved="RESERVED")
    return (
        found.reveal() if found else None,
        [": ".join(filter(None, (one.message, one.hint))) for one in problems.found],
    )


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{0!r}".format])
def test_a_secret_does_not_show_itself(show: object) -> None:
    assert callable(show)
    assert show(Secret("hunter2")) == "***"


def test_a_secret_inside_something_does_not_show_either() -> None:
    assert "hunter2" not in repr([{"a": (Secret("hunter2"),)}])


def test_a_secret_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(Secret("hunter2"))).reveal() == "hunter2"


def test_secrets_are_equal_when_their_values_are() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")


def test_an_explicit_variable_wins_over_the_reserved_one() -> None:
    assert resolve('{ env = "MINE" }', {"MINE": "mine", "RESERVED": "reserved"}) == ("mine", [])


def test_the_reserved_variable_wins_over_a_literal() -> None:
    assert resolve('"literal"', {"RESERVED": "reserved"}) == ("reserved", [])


def test_the_reserved_variable_fills_what_is_absent() -> None:
    assert resolve(None, {"RESERVED": "reserved"}) == ("reserved", [])


def test_a_literal_counts_when_no_variable_is_set() -> None:
    assert resolve('"literal"', {}) == ("literal", [])


def test_an_empty_reserved_variable_counts_as_not_set() -> None:
    assert resolve('"literal"', {"RESERVED": ""}) == ("literal", [])


def test_nothing_anywhere_is_nothing() -> None:
    assert resolve(None, {}) == (None, [])


def test_a_missing_explicit_variable_is_named_even_when_the_reserved_one_is_set() -> None:
    assert resolve('{ env = "MINE" }', {"RESERVED": "reserved"}) == (
        None,
        ["environment variable MINE is not set"],
    )


def test_a_misspelt_env_is_an_unknown_key() -> None:
    assert resolve('{ evn = "MINE" }', {}) == (
        None,
        ['unknown key "evn": did you mean "env"?', '"env" is missing'],
    )


def test_a_number_is_no_secret_and_is_not_shown() -> None:
    assert resolve("12345678", {}) == (None, ['must be a text or { env = "VAR" }'])


def test_the_reserved_variable_has_the_name_of_the_sink_in_capitals() -> None:
    assert reserved_variable("main-search.eu", "PASSWORD") == "MAIN_SEARCH_EU_OPENSEARCH_PASSWORD"


def test_a_node_does_not_show_its_value() -> None:
    assert "hunter2" not in repr(node('{ a = ["hunter2"] }'))
