"""What a good flusso.toml means, and what is wrong with a bad one."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from flusso.config.deployment import (
    BatchSettings,
    Deployment,
    OnError,
    ReplicaIdentity,
    SparkSettings,
    SqliteSettings,
    StdoutSettings,
)
from flusso.config.load import Overrides, load_deployment
from flusso.errors import ConfigError, SchemaError

SCHEMA = "version: 1\ntable: t\nfields: [{text: a}]\n"
SOURCE = '[source]\ntype = "postgres"\nconnection_url = "postgresql://me:hunter2@db/shop"\n'
INDEX = '[[index]]\nname = "t"\nschema = "t.yml"\n'


def load(folder: Path, toml: str, overrides: Overrides | None = None, **env: str) -> Deployment:
    (folder / "t.yml").write_text(SCHEMA)
    (folder / "flusso.toml").write_text(toml)
    return load_deployment(folder / "flusso.toml", env=env, overrides=overrides)


def problems(folder: Path, toml: str, overrides: Overrides | None = None, **env: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, toml, overrides, **env)
    return [str(p).replace(str(folder) + "/", "") for p in caught.value.problems]


def test_a_small_file_has_all_its_defaults(tmp_path: Path) -> None:
    found = load(tmp_path, SOURCE + INDEX)
    assert (found.prefix, found.spark, found.batch) == ("", SparkSettings(), BatchSettings())
    assert (found.source.slot, found.source.publication) == ("flusso", "flusso")
    assert found.source.manage_publication
    assert found.source.replica_identity is ReplicaIdentity.AUTO
    assert found.source.max_connections == 10
    assert found.sinks == (StdoutSettings("stdout"),)


def test_an_index_has_all_its_defaults(tmp_path: Path) -> None:
    (index,) = load(tmp_path, SOURCE + INDEX).indexes
    assert (index.name, index.schema.table.name) == ("t", "t")
    assert (index.enabled, index.on_error, index.sinks) == (True, OnError.STOP, ("stdout",))


def test_every_setting_is_read(tmp_path: Path) -> None:
    toml = """
prefix = "dev_"
on_error = "skip"
[source]
type = "postgres"
connection_url = "host=h"
slot = "s"
publication = "p"
manage_publication = false
replica_identity = "ignore"
max_connections = 7
[spark]
master = "local[2]"
[spark.conf]
spark.executor.memory = "2g"
"spark.ui.enabled" = false
spark.sql.shuffle.partitions = 8
[batch]
max_changes = 10
max_bytes = 1048576
delay_ms = 5
chunk = 20
max_fan_out = 2000
seed_range_mb = 1
seed_parallelism = 3
"""
    found = load(tmp_path, toml + INDEX)
    assert found.prefix == "dev_"
    assert (found.source.slot, found.source.publication, found.source.max_connections) == ("s", "p", 7)
    assert found.source.replica_identity is ReplicaIdentity.IGNORE
    assert not found.source.manage_publication
    assert found.spark.master == "local[2]"
    assert found.spark.conf == {
        "spark.executor.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
    }
    assert found.batch == BatchSettings(10, 1048576, 5, 20, 2000, 1.0, 3)
    assert found.indexes[0].on_error is OnError.SKIP


def test_an_index_may_have_its_own_policy_and_sinks(tmp_path: Path) -> None:
    sinks = '[sinks.a]\ntype = "stdout"\n[sinks.b]\ntype = "stdout"\npretty = true\n'
    own = 'on_error = "skip"\nsinks = ["b"]\nenabled = false\nverify_before_switch = true\n'
    found = load(tmp_path, SOURCE + sinks + INDEX + own)
    (index,) = found.indexes
    assert (index.on_error, index.sinks, index.enabled) == (OnError.SKIP, ("b",), False)
    assert index.verify_before_switch
    assert found.sinks == (StdoutSettings("a"), StdoutSettings("b", pretty=True))


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "s.yml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path.parent)
    toml = (
        SOURCE + '[sinks.a]\ntype = "sqlite"\npath = "data/x.sqlite"\n' + INDEX.replace("t.yml", "deep/s.yml")
    )
    (tmp_path / "flusso.toml").write_text(toml)
    found = load_deployment(Path(tmp_path.name) / "flusso.toml", env={})
    assert found.sinks == (SqliteSettings("a", str(tmp_path / "data" / "x.sqlite")),)
    assert found.indexes[0].schema_path == str(tmp_path / "deep" / "s.yml")


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    toml = 'prefix = "a_"\n' + SOURCE + 'slot = "b"\npublication = "c"\n' + INDEX
    found = load(tmp_path, toml, Overrides(slot="x", publication="y", prefix="z_"))
    assert (found.prefix, found.source.slot, found.source.publication) == ("z_", "x", "y")


def test_an_override_may_take_the_prefix_away(tmp_path: Path) -> None:
    assert load(tmp_path, 'prefix = "a_"\n' + SOURCE + INDEX, Overrides(prefix="")).prefix == ""


def test_a_wrong_override_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, SOURCE + INDEX, Overrides(slot="No!")) == [
        "flusso.toml: slot (overridden): a slot name has lower-case letters, digits and _ only, at most 63"
    ]


CASES = {
    "an unknown key": (
        'prefx = "a"\n' + SOURCE + INDEX,
        ['1:1: prefx: unknown key "prefx": did you mean "prefix"?'],
    ),
    "an unknown table": (
        SOURCE + "[bacth]\n" + INDEX,
        ['4:1: bacth: unknown key "bacth": did you mean "batch"?'],
    ),
    "no source": (INDEX, [
        '1:1: "source" is missing',
        '1:1: source: "connection_url" is missing and DATABASE_URL is not set',
    ]),
    "a source of another type": (
        SOURCE.replace('"postgres"', '"mysql"') + INDEX,
        ['2:8: source.type: the only type of source is "postgres"'],
    ),
    "a source without a type": (
        '[source]\nconnection_url = "host=h"\n' + INDEX,
        ['1:1: source: "type" is missing'],
    ),
    "a source that is a text": ('source = "x"\n' + INDEX, [
        "1:10: source: must be a mapping, is a text",
        '1:10: source: "connection_url" is missing and DATABASE_URL is not set',
    ]),
    "no index": (SOURCE, ["1:1: there is no [[index]]"]),
    "an index as a plain table": (
        SOURCE + "[index]\nname = 1\n",
        ["4:1: index: must be a list, is a mapping"],
    ),
    "an index without name and schema": (
        SOURCE + "[[index]]\n",
        ['4:1: index[0]: "name" is missing', '4:1: index[0]: "schema" is missing'],
    ),
    "two indexes of one name": (
        SOURCE + INDEX + INDEX,
        ['8:8: index[1].name: index "t" is already defined on line 4'],
    ),
    "an index name in capitals": (
        SOURCE + INDEX.replace('"t"', '"T"'),
        ["5:8: index[0].name: an index name is lower case"],
    ),
    "an index name with a star": (
        SOURCE + INDEX.replace('"t"', '"t*"'),
        ["5:8: index[0].name: an index name cannot contain '*'"],
    ),
    "an index name with a leading dash": (
        SOURCE + INDEX.replace('"t"', '"-t"'),
        ["5:8: index[0].name: an index name begins with a letter or a digit"],
    ),
    "an index named like the state": (
        SOURCE + INDEX.replace('"t"', '"flusso_meta"'),
        ['5:8: index[0].name: "flusso_meta" is where flusso keeps its state'],
    ),
    "an index name too long": (
        SOURCE + INDEX.replace('"t"', f'"{"t" * 101}"'),
        ["5:8: index[0].name: an index name has at most 100 bytes"],
    ),
    "a prefix in capitals": ('prefix = "Dev"\n' + SOURCE + INDEX, ["1:10: prefix: a prefix is lower case"]),
    "a prefix too long": (
        f'prefix = "{"é" * 26}"\n' + SOURCE + INDEX,
        ["1:10: prefix: a prefix has at most 50 bytes"],
    ),
    "a prefix with a slash": (
        'prefix = "a/"\n' + SOURCE + INDEX,
        ["1:10: prefix: a prefix cannot contain '/'"],
    ),
    "an unknown sink": (
        SOURCE + '[sinks.main]\ntype = "stdout"\n' + INDEX + 'sinks = ["mian"]\n',
        ['9:10: index[0].sinks[0]: there is no sink "mian": did you mean "main"?'],
    ),
    "no sink for an index": (SOURCE + INDEX + "sinks = []\n", ["7:9: index[0].sinks: names no sink"]),
    "a schema file that is not there": (
        SOURCE + INDEX.replace("t.yml", "x.yml"),
        ["6:10: index[0].schema: cannot read x.yml: no such file or directory"],
    ),
    "a policy of its own": (
        'on_error = "ignore"\n' + SOURCE + INDEX,
        ['1:12: on_error: "ignore" is not one of stop, skip'],
    ),
    "a slot name in capitals": (
        SOURCE + 'slot = "Slot"\n' + INDEX,
        ["4:8: source.slot: a slot name has lower-case letters, digits and _ only, at most 63"],
    ),
    "a number out of range": (
        SOURCE + "[batch]\nmax_changes = 0\nseed_range_mb = 0\n" + INDEX,
        ["5:15: batch.max_changes: must be at least 1",
         "6:17: batch.seed_range_mb: must be between 0.0625 and 4096"],
    ),
    "a number as a text": (
        SOURCE + '[batch]\nchunk = "10"\n' + INDEX,
        ["5:9: batch.chunk: must be a whole number, is a text"],
    ),
    "a list as a Spark setting": (
        SOURCE + '[spark.conf]\n"spark.x" = [1]\n' + INDEX,
        ["5:13: spark.conf.spark.x: a Spark setting is a text, a number or true or false, this is a list"],
    ),
    "a missing variable": (
        SOURCE.replace('"postgresql://me:hunter2@db/shop"', '{ env = "PG_URL" }') + INDEX,
        ["3:26: source.connection_url.env: environment variable PG_URL is not set"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_is_refused(tmp_path: Path, case: str) -> None:
    toml, expected = CASES[case]
    assert problems(tmp_path, toml) == [f"flusso.toml:{line}" for line in expected]


def test_problems_of_the_toml_and_of_all_schema_files_come_together(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("version: 2\ntable: t\nfields: [{text: a}]")
    (tmp_path / "b.yml").write_text("version: 1\ntable: t\nfields: []")
    indexes = '[[index]]\nname = "a"\nschema = "a.yml"\n[[index]]\nname = "b"\nschema = "b.yml"\n'
    assert problems(tmp_path, "prefix = 1\n" + SOURCE + indexes) == [
        "flusso.toml:1:10: prefix: must be a text, is a number",
        "a.yml:1:10: version: only version 1 is known",
        "b.yml:3:9: fields: there are no fields",
    ]


def test_problems_of_schema_files_alone_are_a_schema_error(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("")
    with pytest.raises(SchemaError):
        load(tmp_path, SOURCE + INDEX.replace("t.yml", "a.yml"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nothing\.toml: no such file"):
        load_deployment(tmp_path / "nothing.toml", env={})


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flusso.toml").write_bytes(b"prefix = '\xff'")
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        load_deployment(tmp_path / "flusso.toml", env={})


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    assert load(tmp_path, "\ufeff" + SOURCE + INDEX).indexes[0].name == "t"


def test_a_literal_secret_is_in_no_repr_of_the_deployment(tmp_path: Path) -> None:
    assert "hunter2" not in repr(load(tmp_path, SOURCE + INDEX))


def test_a_literal_secret_is_in_no_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, SOURCE + 'password = "hunter2"\n[sinks.a]\ntype = "opensearch"\nurl = "hunter2"\n')
    assert "hunter2" not in str(caught.value) + repr(caught.value) + repr(caught.value.problems)


def test_a_deployment_survives_pickling(tmp_path: Path) -> None:
    found = load(tmp_path, SOURCE + INDEX)
    assert pickle.loads(pickle.dumps(found)) == found
