"""`flusso build` and its lock: readable, free of secrets, refused when it was tampered with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from flusso.cli.assemble import index_digests, load
from flusso.cli.main import app
from flusso.config.lock import make_lock, read_lock, render_lock
from flusso.errors import ConfigError, LockError

SCHEMA = "version: 1\ntable: t\nfields: [{ text: name }, { long: n }]  # a comment\n"
CONFIG = """
# A deployment.
prefix = "dev_"
[source]
type = "postgres"
connection_url = { env = "SHOP_URL" }
[sinks.search]
type = "opensearch"
url = { env = "SEARCH_URL" }
username = "me"
password = { env = "SEARCH_PASSWORD" }
[sinks.local]
type = "sqlite"
path = "t.sqlite"
[[index]]
name = "things"
schema = "deep/t.yml"
"""
ENV = {
    "SHOP_URL": "postgresql://me:hunter2@db/shop",
    "SEARCH_URL": "https://hunter2@h:9200",
    "SEARCH_PASSWORD": "hunter2",
}

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "t.yml").write_text(SCHEMA)
    (tmp_path / "flusso.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, [*arguments])


def _lock() -> dict[str, object]:
    found: dict[str, object] = json.loads(Path("flusso.lock").read_text())
    return found


def _refused(message: str) -> LockError:
    with pytest.raises(LockError, match=message) as caught:
        load(Path("flusso.lock"))
    assert caught.value.hint
    return caught.value


def _set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)


def test_a_lock_is_built_without_any_secret_at_hand(call: Call) -> None:
    done = call("build")
    assert done.exit_code == 0, done.output
    assert _lock()["format"] == 1
    assert _lock()["deployment"]["source"]["connection_url"] == {"env": "SHOP_URL"}  # type: ignore[index]


def test_no_secret_of_the_environment_is_in_a_lock(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch)
    call("build")
    assert "hunter2" not in Path("flusso.lock").read_text()


def test_a_lock_gives_the_deployment_of_its_files(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch)
    call("build")
    by_files, by_lock = load(Path("flusso.toml")), load(Path("flusso.lock"))
    assert by_lock.source == by_files.source
    assert set(by_lock.sinks) == set(by_files.sinks)
    assert by_lock.indexes == tuple(replace(index, schema_path="") for index in by_files.indexes)
    assert index_digests(by_lock) == index_digests(by_files) == _lock()["digests"]


def test_a_lock_needs_no_file_beside_it_and_wins_over_one_that_changed(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch)
    call("build")
    before = load(Path("flusso.lock"))
    Path("flusso.toml").write_text("broken")
    Path("deep/t.yml").unlink()
    assert load(Path("flusso.lock")) == before


def test_flags_win_over_a_lock(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch)
    call("build")
    found = load(Path("flusso.lock"), slot="mine", prefix="")
    assert (found.source.slot, found.prefix) == ("mine", "")


def test_a_secret_that_a_lock_refers_to_must_be_there_to_run(call: Call) -> None:
    call("build")
    with pytest.raises(ConfigError, match="SHOP_URL is not set"):
        load(Path("flusso.lock"))


def test_the_same_content_gives_the_same_bytes_whatever_the_layout(call: Call) -> None:
    call("build")
    before = Path("flusso.lock").read_bytes()
    Path("deep/t.yml").write_text("table: t\nfields:\n  - text: name\n  - {long: n}\nversion: 1\n")
    Path("flusso.toml").write_text(CONFIG.replace("# A deployment.", "").replace("\n", "\n\n"))
    assert call("build").exit_code == 0
    assert Path("flusso.lock").read_bytes() == before


def test_run_locked_names_the_lock_that_is_not_there(call: Call) -> None:
    error = call("run", "--locked").exception
    assert isinstance(error, LockError)
    assert str(error) == "there is no lock at flusso.lock: run flusso build"


def test_a_tampered_lock_is_refused(call: Call) -> None:
    call("build")
    text = Path("flusso.lock").read_text()
    Path("flusso.lock").write_text(text.replace('"dev_"', '"prod_"'))
    assert _refused("was changed after it was built").exit_code == 2


def test_a_lock_that_was_only_laid_out_anew_is_as_good(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch)
    call("build")
    Path("flusso.lock").write_text(json.dumps(_lock()))
    assert load(Path("flusso.lock")).prefix == "dev_"


def test_a_lock_of_a_newer_format_is_refused_before_its_checksum_is_looked_at(call: Call) -> None:
    call("build")
    Path("flusso.lock").write_text(json.dumps(_lock() | {"format": 2}))
    _refused("has format 2, this flusso reads up to 1")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": true}', "[" * 100_000, "version = 1"])
def test_what_is_no_lock_is_refused(call: Call, text: str) -> None:
    Path("flusso.lock").write_text(text)
    _refused("is not a lock")


def test_a_lock_whose_index_has_another_shape_in_this_version_is_refused(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch)
    config = tmp_path / "flusso.toml"
    lock = make_lock(config, {"things": {"local": "0" * 64, "search": "1" * 64}}, flusso="0.0.9")
    Path("flusso.lock").write_text(render_lock(lock))
    _refused('built by flusso 0.0.9; .* gives index "things" another shape')


def test_check_says_that_a_lock_is_up_to_date(call: Call) -> None:
    call("build")
    done = call("build", "--check")
    assert (done.exit_code, done.stdout) == (0, "flusso.lock is up to date\n")


def test_check_says_what_has_changed_and_ends_with_1(call: Call) -> None:
    call("build")
    before = Path("flusso.lock").read_bytes()
    Path("deep/t.yml").write_text(SCHEMA.replace("long", "integer"))
    done = call("build", "--check", "--format", "json")
    assert done.exit_code == 1
    assert json.loads(done.stdout) == {
        "lock": "flusso.lock",
        "is_current": False,
        "changed": ["deep/t.yml", "digest of things"],
    }
    assert Path("flusso.lock").read_bytes() == before


def test_check_counts_a_missing_lock_as_not_up_to_date(call: Call) -> None:
    done = call("build", "--check")
    assert done.exit_code == 1
    assert not Path("flusso.lock").exists()


def test_a_deployment_that_does_not_load_is_not_locked(call: Call) -> None:
    Path("deep/t.yml").write_text("version: 1\ntable: t\nfields: []\n")
    assert isinstance(call("build").exception, ConfigError)
    assert not Path("flusso.lock").exists()


def test_the_lock_may_have_another_name(call: Call) -> None:
    assert call("build", "--out", "deep/shop.lock").exit_code == 0
    assert read_lock(Path("deep/shop.lock")).deployment == read_lock(Path("deep/shop.lock")).deployment
    assert isinstance(call("build", "--out", "nowhere/shop.lock").exception, ConfigError)


def test_a_lock_is_not_built_of_a_lock(call: Call) -> None:
    call("build")
    assert isinstance(call("build", "--config", "flusso.lock").exception, ConfigError)


LITERALS = {
    "a URL of a replica": 'connection_url = "host=db"\nread_url = "postgresql://me:hunter2@db/shop"\n',
    "a url with a password": 'connection_url = "postgresql://me:hunter2@db/shop"',
    "a url with the password as a parameter": 'connection_url = "postgresql://db/shop?passw%6Frd=hunter2"',
    "keywords with a password": 'connection_url = "host=db password = hunter2"',
    "parts with a password": 'connection_url = { database = "shop", password = "hunter2" }',
    "parts with a key's password": 'connection_url = { database = "shop", sslpassword = "hunter2" }',
    "an address with a password": '[sinks.a]\ntype = "opensearch"\nurl = "https://me:hunter2@h:9200"',
    "addresses with a password": '[sinks.a]\ntype = "opensearch"\nurl = ["https://h", "https://me:hunter2@h"]',
    "the password of a sink": '[sinks.a]\ntype = "opensearch"\nusername = "me"\npassword = "hunter2"',
    "the key of a sink": '[sinks.a]\ntype = "opensearch"\napi_key = "hunter2"',
    "a Spark setting": '[spark.conf]\nspark.hadoop.fs.s3a.secret.key = "hunter2"',
}


@pytest.mark.parametrize("case", LITERALS)
def test_a_literal_secret_is_refused_with_its_line_and_not_shown(call: Call, case: str) -> None:
    source = '[source]\ntype = "postgres"\n'
    index = '\n[[index]]\nname = "things"\nschema = "deep/t.yml"\n'
    Path("flusso.toml").write_text(source + LITERALS[case] + index)
    error = call("build").exception
    assert isinstance(error, ConfigError)
    (problem,) = error.problems
    assert (problem.code, problem.line > 2, bool(problem.hint)) == ("literal-secret", True, True)
    assert "hunter2" not in str(error) + repr(error.problems)
    assert not Path("flusso.lock").exists()


def test_a_literal_address_without_a_password_may_be_locked(call: Call) -> None:
    Path("flusso.toml").write_text(CONFIG.replace('{ env = "SHOP_URL" }', '"postgresql://me@db/shop"'))
    assert call("build").exit_code == 0


def test_a_damaged_lock_is_a_lock_error_or_the_same_lock(call: Call) -> None:
    call("build")
    lock, text = read_lock(Path("flusso.lock")), Path("flusso.lock").read_text()
    pieces = st.sampled_from(["", " ", "}", '"', "1", "NaN", "\\ud800", "é", "null", ","])

    @settings(max_examples=100, deadline=None, database=None)
    @given(st.integers(0, len(text)), st.integers(0, 5), pieces)
    def damage(start: int, removed: int, piece: str) -> None:
        Path("flusso.lock").write_text(text[:start] + piece + text[start + removed :])
        try:
            assert read_lock(Path("flusso.lock")) == lock
        except LockError:
            return

    damage()
