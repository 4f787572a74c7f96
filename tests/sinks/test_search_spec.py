"""The settings of the sinks in a search cluster, without a server."""

from __future__ import annotations

import sys

import pytest

from flusso.errors import ConfigError
from flusso.sinks.search.connection import SearchSpec
from flusso.sinks.search.elasticsearch import ElasticsearchSpec
from flusso.sinks.search.opensearch import OpenSearchSpec


def test_credentials_in_a_url_move_to_where_the_repr_hides_them() -> None:
    spec = OpenSearchSpec("s", ("https://me:p%40ss@host:9201/base/",))
    assert (spec.urls, spec.username, spec.password) == (("https://host:9201/base",), "me", "p@ss")


def test_an_explicit_user_wins_over_one_in_a_url() -> None:
    spec = OpenSearchSpec("s", ("https://me:one@host",), username="you", password="two")
    assert (spec.username, spec.password, spec.urls) == ("you", "two", ("https://host",))


@pytest.mark.parametrize("urls", [(), ("ftp://host",), ("http://",), ("http://host:port",)])
def test_urls_that_lead_nowhere_are_a_config_error(urls: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match='sink "s" has'):
        OpenSearchSpec("s", urls)


@pytest.mark.parametrize(
    ("kind", "package", "extra"),
    [
        (OpenSearchSpec, "opensearchpy", "opensearch"),
        (ElasticsearchSpec, "elasticsearch", "elasticsearch"),
    ],
)
def test_a_missing_client_is_a_config_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, kind: type[SearchSpec], package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"pip install 'flusso\[{extra}\]'"):
        kind("s", ("http://localhost",)).open()


def test_a_missing_ca_file_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="has no ca file"):
        OpenSearchSpec("s", ("https://host",), ca="/nowhere/ca.pem").open()


def test_what_changes_the_mapping_is_in_the_shape() -> None:
    one = OpenSearchSpec("s", ("http://a",), text_analysis="plain")
    two = OpenSearchSpec("s", ("http://b",), text_analysis="builtin", batch_size=7)
    assert one.shape != two.shape
    assert OpenSearchSpec("t", ("http://c",), batch_size=9).shape == two.shape
