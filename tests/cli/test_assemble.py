"""What a deployment becomes for the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from flusso.cli.assemble import load, pipeline_spec

_SCHEMA = "version: 1\ntable: users\nprimary_key: id\nfields:\n  - long: id\n"
_CONFIG = """
[source]
type = "postgres"
connection_url = "postgresql://nobody@localhost/none"

[sinks.search]
type = "{kind}"
url = "http://localhost:9200"

[sinks.unused]
type = "sqlite"
path = "unused.db"

[[index]]
name = "users"
schema = "users.schema.yml"
sinks = ["search"]
"""


@pytest.mark.parametrize(
    ("kind", "library"), [("opensearch", "opensearchpy"), ("elasticsearch", "elasticsearch")]
)
def test_workers_are_to_begin_with_the_client_of_the_sinks_that_are_written(
    tmp_path: Path, kind: str, library: str
) -> None:
    (tmp_path / "users.schema.yml").write_text(_SCHEMA)
    (tmp_path / "flusso.toml").write_text(_CONFIG.format(kind=kind))
    spec = pipeline_spec(load(tmp_path / "flusso.toml"))
    assert set(spec.spark.preload) == {library, f"flusso.sinks.search.{kind}"}
