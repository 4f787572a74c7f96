"""A Spark that does not start, or dies before it does anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.engine.session import SparkSpec, open_session
from flusso.errors import ConfigError
from market import create_market
from pipelines import run_script


@pytest.mark.parametrize("master", ["local[x]", "local[0]", "local[2", "local-cluster[2]", "locally"])
def test_a_local_master_that_spark_cannot_read_is_refused_before_a_jvm_starts(master: str) -> None:
    with pytest.raises(ConfigError, match="is no Spark master"):
        open_session(SparkSpec(master))


@pytest.mark.spark
@pytest.mark.postgres
def test_a_wrong_setting_and_a_jvm_that_dies_before_anything_is_followed_are_typed_errors(
    database18: Database, tmp_path: Path
) -> None:
    create_market(database18, users=1)
    ended = run_script("broken_spark.py", database18.dsn.text, str(tmp_path))
    setting, death = ended.stdout.splitlines()
    assert setting.startswith("ConfigError Spark refuses its settings: ")
    assert '"spark.scheduler.mode" is invalid' in setting
    assert death.startswith("EngineError the Spark JVM died: start flusso again")
    assert "Following" not in ended.stderr
    assert ended.returncode == 0, ended.stderr
