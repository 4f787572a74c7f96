"""`flusso schema`: what it prints is a JSON Schema, and the examples of the documentation are valid by it."""

from __future__ import annotations

import json

import jsonschema
import pytest
from typer.testing import CliRunner

from flusso.cli.main import app


@pytest.mark.parametrize("kind", ["config", "index"])
def test_it_prints_a_json_schema_and_nothing_else(kind: str) -> None:
    done = CliRunner().invoke(app, ["schema", kind])
    assert done.exit_code == 0
    jsonschema.Draft7Validator.check_schema(json.loads(done.stdout))


def test_another_word_is_a_usage_error() -> None:
    assert CliRunner().invoke(app, ["schema", "table"]).exit_code == 2
