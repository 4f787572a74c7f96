"""Whatever stands in flusso.toml, it gives a deployment or a `ConfigError`, and shows no secret."""

from __future__ import annotations

import tempfile
from io import StringIO
from pathlib import Path

from hypothesis import example, given, settings
from rich.console import Console

from damage import misspelt, rearranged, revalued, spliced
from flusso.cli.report import print_findings, to_json
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
ssl_mode = "require"
ssl_root_cert = "/etc/root.pem"
ssl_sni_hostname = "db.example"
manage_replica_identity = false

[server]
public_address = "127.0.0.1:9464"

[stream]
type = "channel"
capacity = 10

[spark]
master = "local[2]"
conf = { "spark.ui.enabled" = false, "spark.hadoop.fs.s3a.secret.key" = "hunter2" }

[batch]
max_changes = 1000
seed_range_mb = 1.5
max_delay_ms = 50

[sinks.main]
type = "opensearch"
url = ["https://me:hunter2@a:9200", "https://b:9200"]
api_key = { env = "KEY" }
number_of_shards = 2

[sinks.other]
type = "opensearch"
url = "https://c:9200"
username = "me"
password = '''
hunter2'''

[sinks.local]
type = "sqlite"
path = "x.sqlite"

[[index]]
name = "t"
schema = "t.yml"
sinks = ["main", "local"]
"""
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
            shown = str(error) + repr(error) + _printed(error)
        assert "hunter2" not in shown


def _printed(error: ConfigError) -> str:
    """Give all that any command shows of an error, which is never nothing."""
    out = StringIO()
    print_findings(Console(file=out, soft_wrap=True), error.problems)
    assert "error[" in out.getvalue()
    return out.getvalue() + repr(error.problems) + repr([to_json(problem) for problem in error.problems])


@settings(max_examples=250, deadline=None)
@example('[sinks.s]\ntype = "ur//me:hunter2@a:9200"')
@example('[sinks.s]\ntype = "ur//me:hunter2@a:9200", "https://b:9200"]')
@example('[source]\nreplica_identity = "me:hunter2@a"')
@given(spliced(GOOD, PIECES))
def test_a_damaged_toml_gives_a_deployment_or_a_config_error(text: str) -> None:
    _survives(text)


@settings(max_examples=200, deadline=None)
@given(revalued(GOOD, PIECES, "="))
def test_a_toml_with_values_exchanged_gives_a_deployment_or_a_config_error(text: str) -> None:
    _survives(text)


@settings(max_examples=100, deadline=None)
@given(rearranged(GOOD))
def test_a_toml_with_lines_moved_gives_a_deployment_or_a_config_error(text: str) -> None:
    _survives(text)


@settings(max_examples=200, deadline=None)
@given(misspelt(GOOD))
def test_a_misspelt_toml_gives_a_deployment_or_a_config_error(text: str) -> None:
    _survives(text)
