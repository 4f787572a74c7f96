"""Whatever stands in flusso.toml, it gives a deployment or a `ConfigError`, and shows no secret."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from flusso.config.load import load_deployment
from flusso.errors import ConfigError

SCHEMA = "version: 1\ntable: t\nfields: [{text: a}]\n"
GOOD = """prefix = "dev_"
on_error = "skip"

[source]
type = "postgres"
connection_url = { host = "db", port = 5432, user = "me", password = "hunter2", database = "shop" }
slot = "shop"
replica_identity = "check"

[spark]
master = "local[2]"
conf = { "spark.ui.enabled" = false }

[batch]
max_changes = 1000
seed_range_mb = 1.5

[sinks.main]
type = "opensearch"
url = ["https://me:hunter2@a:9200", "https://b:9200"]
api_key = { env = "KEY" }
number_of_shards = 2

[sinks.local]
type = "sqlite"
path = "x.sqlite"

[[index]]
name = "t"
schema = "t.yml"
sinks = ["main", "local"]
"""
LINES = GOOD.splitlines()
PIECES = [
    *("", " ", "\n", "=", ".", ",", "[", "]", "[[", "]]", "{", "}", "#", '"', "'", '""', "[a]", "\r"),
    *("a = 1\n", "[index]\n", "[sinks]\n", "[source.x]\n", "x = {}", "true", "0", "-1", "1.5", "nan", "inf"),
    *("1979-05-27", "07:32:00", '"\\u0000"', '"\\ud800"', "9" * 5000, "é", "😀", "\x00", "\ufeff"),
    *('{ env = "NO" }', "[[a]]", '"ftp://x"', '"http://["', '"http://h:99999"'),
    *('"postgresql://"', "[1, [2]]", "{ a.b = 1 }"),
]  # fmt: skip


def _survives(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "t.yml").write_text(SCHEMA)
        path = Path(name) / "flusso.toml"
        path.write_text(text, encoding="utf-8", newline="", errors="surrogatepass")
        try:
            shown = repr(load_deployment(path, env={"KEY": "k", "DATABASE_URL": ""}))
        except ConfigError as error:
            shown = str(error) + repr(error) + repr(error.problems)
        assert "hunter2" not in shown


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_a_damaged_toml_gives_a_deployment_or_a_config_error(data: st.DataObject) -> None:
    text = GOOD
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        text = text[:start] + data.draw(st.sampled_from(PIECES)) + text[end:]
    _survives(text)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_toml_with_values_exchanged_gives_a_deployment_or_a_config_error(data: st.DataObject) -> None:
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        key, equals, _ = lines[at].partition("=")
        lines[at] = key + equals + " " + data.draw(st.sampled_from(PIECES))
    _survives("\n".join(lines))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_toml_with_lines_moved_gives_a_deployment_or_a_config_error(data: st.DataObject) -> None:
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 4))):
        line = lines.pop(data.draw(st.integers(0, len(lines) - 1)))
        lines.insert(data.draw(st.integers(0, len(lines))), line)
    _survives("\n".join(lines))
