"""What `flusso init` drafts of a database with odd names, types and keys fills an index, by its lock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fix_postgres import Database
from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.main import app
from flusso.engine.session import Session
from pipelines import run_once

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

ODD = (Path(__file__).parents[1] / "cli" / "odd.sql").read_text()


def test_a_drafted_and_locked_deployment_is_filled_and_its_document_is_the_sample(
    database18: Database, tmp_path: Path, spark_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    database18.execute(ODD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database18.dsn.text)
    call = CliRunner().invoke
    assert call(app, ["init", "--table", "order", "--index", "orders"]).exit_code == 0
    assert call(app, ["build"]).exit_code == 0
    Path("flusso.toml").unlink()
    Path("orders.schema.yml").unlink()
    spec = pipeline_spec(load(Path("flusso.lock"), slot=f"slot_{database18.name}"), is_once=True)
    run_once(spec, spark_session)
    (sink,) = spec.indexes[0].sinks
    opened = sink.open()
    try:
        (hit,) = opened.search("orders", "Spoon", 10)
    finally:
        opened.close()
    sample = call(app, ["sample", "orders", hit.id, "--format", "json", "--config", "flusso.lock"]).stdout
    assert f'"document":{hit.body.decode()}' in sample
    assert json.loads(sample)["id"] == r"1|a\|b"
