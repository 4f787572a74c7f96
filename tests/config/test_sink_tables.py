"""`[sinks.NAME]`: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from flusso.config.deployment import ElasticsearchSettings, OpenSearchSettings, SinkSettings
from flusso.config.load import load_deployment
from flusso.config.secret import Secret
from flusso.errors import ConfigError
from flusso.schema.analysis import TextAnalysis

SCHEMA = "version: 1\ntable: t\nfields: [{text: a}]\n"


def sink(folder: Path, toml: str, **env: str) -> SinkSettings:
    (folder / "t.yml").write_text(SCHEMA)
    (folder / "flusso.toml").write_text(
        f'[sinks.main]\n{toml}\n[source]\ntype = "postgres"\n[[index]]\nname = "t"\nschema = "t.yml"\n'
    )
    (found,) = load_deployment(folder / "flusso.toml", env={"DATABASE_URL": "host=h", **env}).sinks
    return found


def opensearch(folder: Path, toml: str, **env: str) -> OpenSearchSettings:
    found = sink(folder, f'type = "opensearch"\n{toml}', **env)
    assert isinstance(found, OpenSearchSettings)
    return found


def problems(folder: Path, toml: str, **env: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        sink(folder, toml, **env)
    return [
        ": ".join(part for part in (str(p.line), p.path, p.message, p.hint) if part)
        for p in caught.value.problems
    ]


def test_opensearch_has_all_its_defaults(tmp_path: Path) -> None:
    assert opensearch(tmp_path, 'url = "http://h:9200"') == OpenSearchSettings("main", ("http://h:9200",))


def test_every_setting_of_opensearch_is_read(tmp_path: Path) -> None:
    toml = """
url = ["https://a:9200/", { env = "SECOND" }]
username = "me"
password = { env = "PW" }
ca = "certs/ca.pem"
tls_verify = false
batch_size = 1
max_bytes = 2048
timeout_secs = 2
max_retries = 0
pipeline = "p"
number_of_shards = 3
number_of_replicas = 0
refresh_interval = "-1"
text_analysis = "icu"
auto_subfields = false
compress = false
"""
    assert opensearch(tmp_path, toml, SECOND="https://[::1]:9201/path", PW="pw") == OpenSearchSettings(
        name="main",
        url=("https://a:9200", "https://[::1]:9201/path"),
        username="me",
        password=Secret("pw"),
        ca=str(tmp_path / "certs" / "ca.pem"),
        tls_verify=False,
        batch_size=1,
        max_bytes=2048,
        timeout_secs=2,
        max_retries=0,
        pipeline="p",
        number_of_shards=3,
        number_of_replicas=0,
        refresh_interval="-1",
        text_analysis=TextAnalysis.ICU,
        auto_subfields=False,
        compress=False,
    )


def test_reserved_variables_win_over_literals(tmp_path: Path) -> None:
    found = opensearch(
        tmp_path,
        'url = ["http://a", "http://b"]\nusername = "x"\npassword = "y"',
        MAIN_OPENSEARCH_URL="http://c",
        MAIN_OPENSEARCH_USERNAME="u",
        MAIN_OPENSEARCH_PASSWORD="p",
    )
    assert (found.url, found.username, found.password) == (("http://c",), "u", Secret("p"))


def test_elasticsearch_has_the_same_keys_and_variables_of_its_own_name(tmp_path: Path) -> None:
    found = sink(
        tmp_path,
        'type = "elasticsearch"\nurl = "http://a"\npipeline = "p"',
        MAIN_ELASTICSEARCH_URL="http://c",
        MAIN_ELASTICSEARCH_USERNAME="u",
        MAIN_ELASTICSEARCH_PASSWORD="p",
        MAIN_OPENSEARCH_URL="http://not",
    )
    expected = ElasticsearchSettings("main", ("http://c",), "u", Secret("p"), pipeline="p")
    assert found == expected


def test_credentials_in_a_url_are_taken_out_of_it(tmp_path: Path) -> None:
    found = opensearch(tmp_path, 'url = "https://me:p%40ss@h:9200"')
    assert (found.url, found.username, found.password) == (("https://h:9200",), "me", Secret("p@ss"))


def test_an_api_key_is_a_secret(tmp_path: Path) -> None:
    found = opensearch(tmp_path, 'url = "http://h"\napi_key = "hunter2"')
    assert found.api_key == Secret("hunter2")
    assert "hunter2" not in repr(found)


CASES = {
    "no type": (
        "pretty = true",
        ['1: sinks.main: "type" is missing: one of opensearch, elasticsearch, sqlite, stdout'],
    ),
    "an unknown type": (
        'type = "opensaerch"',
        [
            '2: sinks.main.type: "opensaerch" is not one of opensearch, elasticsearch, sqlite, stdout: '
            'did you mean "opensearch"?'
        ],
    ),
    "no url": (
        'type = "opensearch"',
        ['1: sinks.main: "url" is missing and MAIN_OPENSEARCH_URL is not set'],
    ),
    "no urls": ('type = "opensearch"\nurl = []', ["3: sinks.main.url: names no url"]),
    "a url of another protocol": (
        'type = "opensearch"\nurl = "ftp://hunter2"',
        ["3: sinks.main.url: must be an address like https://host:9200"],
    ),
    "a url with a bad port": (
        'type = "opensearch"\nurl = "http://h:x"',
        ["3: sinks.main.url: must be an address like https://host:9200"],
    ),
    "a username alone": (
        'type = "opensearch"\nurl = "http://h"\nusername = "u"',
        ["1: sinks.main: username and password go together: one of them is missing"],
    ),
    "an api key beside a password": (
        'type = "opensearch"\nurl = "http://h"\nusername = "u"\npassword = "p"\napi_key = "k"',
        ["6: sinks.main.api_key: takes either api_key or username and password"],
    ),
    "a refresh interval without a unit": (
        'type = "opensearch"\nurl = "http://h"\nrefresh_interval = "10"',
        ['4: sinks.main.refresh_interval: must be a time like "10s" or "500ms", or "-1" for never'],
    ),
    "no shards": (
        'type = "opensearch"\nurl = "http://h"\nnumber_of_shards = 0',
        ["4: sinks.main.number_of_shards: must be at least 1"],
    ),
    "a key of another sink": (
        'type = "sqlite"\npath = "x"\npretty = true',
        ['4: sinks.main.pretty: unknown key "pretty"'],
    ),
    "sqlite without a path": ('type = "sqlite"', ['1: sinks.main: "path" is missing']),
}


@pytest.mark.parametrize("case", CASES)
def test_is_refused_in_a_sink(tmp_path: Path, case: str) -> None:
    toml, expected = CASES[case]
    assert problems(tmp_path, toml) == expected


def test_an_index_may_name_a_sink_that_is_wrong_without_a_second_problem(tmp_path: Path) -> None:
    (tmp_path / "t.yml").write_text(SCHEMA)
    (tmp_path / "flusso.toml").write_text(
        '[sinks.a]\ntype = "x"\n[sinks.b]\ntype = "stdout"\n[source]\ntype = "postgres"\n'
        '[[index]]\nname = "t"\nschema = "t.yml"\nsinks = ["a"]\n'
    )
    with pytest.raises(ConfigError) as caught:
        load_deployment(tmp_path / "flusso.toml", env={"DATABASE_URL": "host=h"})
    assert [problem.line for problem in caught.value.problems] == [2]
