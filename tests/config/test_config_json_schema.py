"""The JSON Schema of flusso.toml says what the loader says, as far as a JSON Schema can."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import test_load
import test_load_fuzz

from flusso.config.conninfo import SECRETS, TEXTS, WHOLE
from flusso.config.inherited import INHERITED, inherited_keys
from flusso.config.json_schema import config_schema
from flusso.config.load import load_deployment
from flusso.config.meaning import ALIKE, MEANING
from flusso.config.sinks import SINKS
from flusso.errors import ConfigError

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft7Validator(config_schema())
PROPERTIES = VALIDATOR.schema["properties"]
EXAMPLES = {
    "shop": (ROOT / "src/flusso/demo/shop/flusso.toml").read_text(),
    "many settings": test_load_fuzz.GOOD,
    "small": test_load.SOURCE + test_load.INDEX,
    "dotted Spark settings": test_load.SOURCE
    + '[spark.conf]\nspark.executor.memory = "2g"\n'
    + test_load.INDEX,
    **{path.parent.name: path.read_text() for path in (ROOT / "tests/rust").glob("*/flusso.toml")},
    "no prefix": 'prefix = ""\n' + test_load.SOURCE + test_load.INDEX,
    "a service": '[source]\ntype = "postgres"\nconnection_url = { service = "s" }\n' + test_load.INDEX,
}
INEXPRESSIBLE = {
    *("two indexes of one name", "an index named like the state", "a prefix too long", "an unknown sink"),
    *("a schema file that is not there", "a missing variable"),
}
"""What compares two places, counts bytes, or asks the file system or the environment."""


def _sink(kind: str) -> dict[str, Any]:
    branches = PROPERTIES["sinks"]["additionalProperties"]["oneOf"]
    return next(branch for branch in branches if branch["properties"]["type"]["const"] == kind)


def _keys() -> list[tuple[str, str]]:
    """Every key as (section, key)."""
    sections = {section: PROPERTIES[section] for section in ("source", "spark", "batch")}
    sections |= {"": VALIDATOR.schema, "index": PROPERTIES["index"]["items"]}
    sections |= {kind: _sink(kind) for kind in SINKS}
    return [(section, key) for section, found in sections.items() for key in found["properties"]]


def test_it_is_a_json_schema() -> None:
    jsonschema.Draft7Validator.check_schema(config_schema())


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_good_file_is_valid(name: str) -> None:
    VALIDATOR.validate(tomllib.loads(EXAMPLES[name]))


@pytest.mark.parametrize("case", sorted(test_load.CASES.keys() - INEXPRESSIBLE))
def test_what_the_loader_refuses_is_not_valid(case: str) -> None:
    assert not VALIDATOR.is_valid(tomllib.loads(test_load.CASES[case][0]))


def test_every_key_has_a_meaning_and_every_meaning_a_key() -> None:
    named = {f"{ALIKE.get(section, section)}.{key}".lstrip(".") for section, key in _keys()}
    tables = {"source", "spark", "batch", "sinks", "index", *(f"{kind}.type" for kind in SINKS)}
    inherited = {key for key in INHERITED if not key.startswith("sink.")}
    inherited |= {f"{kind}.{key}" for kind in SINKS for key in inherited_keys("sink")}
    assert named - tables - inherited == set(MEANING)


@pytest.mark.parametrize(("section", "key"), _keys())
def test_a_key_of_the_json_schema_is_known_to_the_loader(tmp_path: Path, section: str, key: str) -> None:
    table = {"": "", "index": "[[index]]\n"}.get(section, f"[{section}]\n")
    if section in SINKS:
        table = f'[sinks.a]\ntype = "{section}"\n'
    text = f"{table}{key} = 1\n" if key != "type" else table or "type = 1"
    (tmp_path / "flusso.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_deployment(tmp_path / "flusso.toml", env={})
    assert f'unknown key "{key}"' not in str(caught.value)


def test_the_parts_of_a_connection_are_those_of_the_loader() -> None:
    parts = PROPERTIES["source"]["properties"]["connection_url"]["anyOf"][2]["properties"]
    assert set(parts) == {*TEXTS, *WHOLE, *SECRETS}
