"""From `connection_url` to what libpq reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from flusso.config.conninfo import PARAMETERS, conninfo
from flusso.config.deployment import Deployment
from flusso.config.load import load_deployment
from flusso.errors import ConfigError
from flusso.postgres.connect import Dsn

SCHEMA = "version: 1\ntable: t\nfields: [{text: a}]\n"


def load(folder: Path, toml: str, **env: str) -> Deployment:
    (folder / "t.yml").write_text(SCHEMA)
    (folder / "flusso.toml").write_text(
        f'[source]\ntype = "postgres"\n{toml}\n[[index]]\nname = "t"\nschema = "t.yml"\n'
    )
    return load_deployment(folder / "flusso.toml", env=env)


def connection(folder: Path, toml: str, **env: str) -> str:
    return load(folder, toml, **env).source.connection.reveal()


def problems(folder: Path, toml: str, **env: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        connection(folder, toml, **env)
    return [
        ": ".join(part for part in (str(p.line), p.path, p.message, p.hint) if part)
        for p in caught.value.problems
    ]


@pytest.mark.parametrize("text", ["postgresql://u:p@h/d?sslmode=require", "host=h dbname='a b'"])
def test_a_connection_string_is_passed_on_as_it_is(tmp_path: Path, text: str) -> None:
    assert connection(tmp_path, f'connection_url = "{text}"') == text


def test_without_a_connection_url_the_reserved_variable_counts(tmp_path: Path) -> None:
    assert connection(tmp_path, "", DATABASE_URL="postgres://h/d") == "postgres://h/d"


def test_an_explicit_variable_wins_over_the_reserved_one(tmp_path: Path) -> None:
    found = connection(tmp_path, 'connection_url = { env = "PG" }', PG="host=mine", DATABASE_URL="host=other")
    assert found == "host=mine"


def test_the_reserved_variable_wins_over_a_table_of_parts(tmp_path: Path) -> None:
    found = connection(tmp_path, 'connection_url = { database = "d" }', DATABASE_URL="host=other")
    assert found == "host=other"


def test_a_table_of_parts_becomes_keywords(tmp_path: Path) -> None:
    toml = (
        'connection_url = { host = "db", port = 5433, user = "me", password = { env = "PW" }, '
        'database = "shop", sslmode = "verify-full" }'
    )
    assert conninfo_to_dict(connection(tmp_path, toml, PW="it's \\ a secret")) == {
        "host": "db",
        "port": "5433",
        "user": "me",
        "password": "it's \\ a secret",
        "dbname": "shop",
        "sslmode": "verify-full",
    }


def test_parts_that_are_left_out_have_defaults(tmp_path: Path) -> None:
    assert conninfo_to_dict(connection(tmp_path, 'connection_url = { database = "d" }')) == {
        "host": "127.0.0.1",
        "port": "5432",
        "user": "postgres",
        "dbname": "d",
    }


def test_a_service_brings_its_own_parts(tmp_path: Path) -> None:
    assert connection(tmp_path, 'connection_url = { service = "shop" }') == "service='shop'"


def test_parts_without_a_database_are_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, 'connection_url = { host = "h" }') == [
        '3: source.connection_url: "database" is missing'
    ]


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, 'connection_url = { database = "d", hots = "h" }') == [
        '3: source.connection_url.hots: unknown key "hots": did you mean "host"?'
    ]


def test_a_port_out_of_range_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, 'connection_url = { database = "d", port = 70000 }') == [
        "3: source.connection_url.port: must be at most 65535"
    ]


def test_no_connection_anywhere_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, "") == ['1: source: "connection_url" is missing and DATABASE_URL is not set']


def test_what_is_no_connection_string_is_refused_without_being_shown(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, 'connection_url = "mysql://u:hunter2@h/d"')
    assert found.startswith("3: source.connection_url: this is not a connection string")
    assert "hunter2" not in found


@pytest.mark.parametrize("password", ["hun/ter2", "hun@ter2", "a/hun@ter2", "12/ter2"])
def test_a_password_that_is_not_escaped_is_refused_without_being_shown(tmp_path: Path, password: str) -> None:
    (found,) = problems(tmp_path, f'connection_url = "postgresql://me:{password}@h/d"')
    assert found.endswith("this has a / or @ before its host that must be written as %2F or %40")


@pytest.mark.parametrize(
    "url", ["postgresql:///d?user=me@host&host=/tmp", "postgresql://me@h1:1,h2:2/d?options=-c%20a=b@c"]
)
def test_an_at_sign_may_stand_in_the_parameters_of_a_url(tmp_path: Path, url: str) -> None:
    assert connection(tmp_path, f'connection_url = "{url}"') == url


@pytest.mark.parametrize(
    "text",
    ["postgresql://me:hunter2%zz@h/db", "host=h hunter2", "postgresql://me:hunter2@[h/db", 'a="hunter2"'],
)
def test_what_libpq_says_of_a_wrong_string_is_told_without_its_pieces(text: str) -> None:
    with pytest.raises(ConfigError, match="the connection string is not valid") as caught:
        Dsn(text)
    assert "hunter2" not in str(caught.value)


def test_a_wrong_reserved_variable_is_named(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "", DATABASE_URL="hunter2")
    assert "DATABASE_URL is not a connection string" in found
    assert "hunter2" not in found


_TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\x00"), max_size=30)


@given(user=_TEXT, password=_TEXT)
def test_libpq_reads_back_whatever_was_quoted(user: str, password: str) -> None:
    found = conninfo_to_dict(conninfo({"user": user, "password": password}))
    assert found == {"user": user, "password": password}


MISTAKES = {
    "a URL": (
        "postgresql://me:hunter2@h/d?sslmod=require",
        'has an unknown parameter "sslmod": did you mean "sslmode"?',
    ),
    "keywords": (
        "host=h dbname=d target_sesion_attrs=any",
        'has an unknown parameter "target_sesion_attrs": did you mean "target_session_attrs"?',
    ),
    "a word": (
        "postgresql://h/d?sslmode=verify_full",
        "has an unknown sslmode: it is one of disable, allow, prefer, require, verify-ca, verify-full: "
        'did you mean "verify-full"?',
    ),
    "our own parameter": (
        "host=h replication=database",
        'has the parameter "replication", which flusso sets itself: leave it out',
    ),
    "a stranger": ("host=h colour=blue", 'has an unknown parameter "colour"'),
    "what may be the rest of a password": (
        "host=h password=a hunter2=b",
        "has an unknown parameter after its password: "
        "a password with a space or a quote is written in quotes",
    ),
}


@pytest.mark.parametrize("key", ["connection_url", "read_url"])
@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistyped_parameter_is_named_without_a_connection(tmp_path: Path, case: str, key: str) -> None:
    text, message = MISTAKES[case]
    url = 'connection_url = "host=h"\n' if key != "connection_url" else ""
    (found,) = problems(tmp_path, f'{url}{key} = "{text}"')
    assert found.endswith(f"source.{key}: this {message}")


def test_a_mistyped_word_in_a_table_of_parts_is_named(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, 'connection_url = { database = "d", sslmode = "requires" }')
    assert found.startswith("3: source.connection_url.sslmode: this has an unknown sslmode")
    assert found.endswith('did you mean "require"?')


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:a?b=c@h:1,g:2/d?ssl=true&target_session_attrs=read-write&keepalives_idle=5",
        "postgresql://%2Ftmp%2Fsockets/d?application_name=mine&connect_timeout=3",
        "host='/tmp/a b' dbname=d password='x y=z' options='-c work_mem=4MB' channel_binding = require",
        "postgresql://[::1]:5433/d?sslrootcert=system&sslnegotiation=direct&sslmode=verify-full",
        "service=shop",
    ],
)
def test_every_form_that_libpq_takes_is_taken(tmp_path: Path, text: str) -> None:
    assert connection(tmp_path, f"connection_url = {json.dumps(text)}") == text


def test_the_list_of_parameters_is_that_of_libpq() -> None:
    own = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    assert own - set(PARAMETERS) == {"replication"}
    assert set(PARAMETERS) - own <= {"servicefile"}, "of a newer libpq"


def test_a_library_user_is_told_of_a_mistyped_parameter_too() -> None:
    with pytest.raises(ConfigError, match=r'unknown parameter "sslmod".*did you mean "sslmode"') as caught:
        Dsn("postgresql://me:hunter2@h/d?sslmod=require")
    assert "hunter2" not in str(caught.value)


def test_the_parts_of_a_replica_are_read_like_those_of_the_source(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        'connection_url = "host=h"\nread_url = { host = "r", database = "d", password = { env = "PW" } }',
        PW="p w",
    ).source.read_url
    assert found is not None
    assert conninfo_to_dict(found.reveal())["password"] == "p w"
    assert "p w" not in repr(found)
