"""Deployments written for the Rust flusso load unchanged, and mean the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from flusso.config.deployment import (
    Deployment,
    OnError,
    OpenSearchSettings,
    ReplicaIdentity,
    StdoutSettings,
)
from flusso.config.load import load_deployment
from flusso.diagnostic import Code
from flusso.errors import ConfigError
from flusso.schema.model import Aggregate, AggregateKind, Join, JoinKind, Scalar, ScalarKind, SoftDelete, walk
from flusso.schema.rules import TAGS

RUST = Path(__file__).parents[1] / "rust"
ENV = {"HOTEL_PASSWORD": "it's", "SEARCH_PASSWORD": "s", "DATABASE_URL": "", "GUESTS": "postgresql://h/d"}


@pytest.fixture
def hotel() -> Deployment:
    return load_deployment(RUST / "everything/flusso.toml", env=ENV)


def source(tmp_path: Path, text: str) -> Deployment:
    (tmp_path / "a.schema.yml").write_text("version: 1\ntable: t\nfields: [{text: a}]")
    index = '[[index]]\nname = "a"\nschema = "a.schema.yml"\n'
    (tmp_path / "flusso.toml").write_text(f'[source]\ntype = "postgres"\n{text}\n{index}')
    return load_deployment(tmp_path / "flusso.toml", env={})


def test_the_smallest_deployment_loads() -> None:
    found = load_deployment(RUST / "small/flusso.toml", env={"DATABASE_URL": "postgresql://h/d"})
    assert [type(sink) for sink in found.sinks] == [StdoutSettings]
    assert found.warnings == ()


def test_tls_settings_become_those_of_the_connection(hotel: Deployment) -> None:
    assert conninfo_to_dict(hotel.source.connection.reveal()) == {
        "host": "db.hotel.example",
        "hostaddr": "10.1.2.3",
        "port": "5433",
        "user": "reader",
        "password": "it's",
        "dbname": "hotel",
        "sslmode": "verify-full",
        "sslrootcert": "/etc/tls/root.pem",
        "sslcert": "/etc/tls/me.pem",
        "sslkey": "/etc/tls/me.key",
    }


@pytest.mark.parametrize("url", ["postgresql://u:p%40@h/d?sslmode=disable", "postgresql://u:p%40@h/d"])
def test_tls_settings_win_over_those_of_a_url(tmp_path: Path, url: str) -> None:
    found = source(tmp_path, f'connection_url = "{url}"\nssl_mode = "require"\nssl_root_cert = "/a b&c"')
    read = conninfo_to_dict(found.source.connection.reveal())
    assert (read["sslmode"], read["sslrootcert"], read["password"]) == ("require", "/a b&c", "p@")


def test_tls_settings_win_over_those_of_keywords(tmp_path: Path) -> None:
    found = source(tmp_path, 'connection_url = "host=h sslmode=disable"\nssl_mode = "verify-ca"')
    assert conninfo_to_dict(found.source.connection.reveal()) == {"host": "h", "sslmode": "verify-ca"}


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ssl_cert and ssl_key go together"):
        source(tmp_path, 'connection_url = "host=h"\nssl_cert = "/a"')


def test_a_name_beside_another_name_is_said_to_have_no_effect(tmp_path: Path) -> None:
    found = source(tmp_path, 'connection_url = "host=h"\nssl_sni_hostname = "other"')
    assert [warning.code for warning in found.warnings] == [Code.NO_EFFECT]


def test_not_managing_identities_leaves_them_as_they_are(tmp_path: Path) -> None:
    found = source(tmp_path, 'connection_url = "host=h"\nmanage_replica_identity = false')
    assert found.source.replica_identity is ReplicaIdentity.AUTO


def test_managing_identities_means_the_same_here(tmp_path: Path) -> None:
    found = source(tmp_path, 'connection_url = "host=h"\nmanage_replica_identity = true')
    assert found.warnings == ()
    assert found.source.replica_identity is ReplicaIdentity.MANAGE


def test_managing_identities_is_said_in_one_way_only(tmp_path: Path) -> None:
    both = 'manage_replica_identity = true\nreplica_identity = "check"'
    with pytest.raises(ConfigError, match="takes either replica_identity or manage_replica_identity"):
        source(tmp_path, f'connection_url = "host=h"\n{both}')


def test_what_there_is_nothing_of_is_told_and_not_refused(hotel: Deployment) -> None:
    assert [(warning.path, warning.code) for warning in hotel.warnings] == [
        ("server", Code.NO_EFFECT),
        ("stream.capacity", Code.NO_EFFECT),
    ]


def test_all_other_settings_keep_their_meaning(hotel: Deployment) -> None:
    assert (hotel.prefix, hotel.batch.max_changes, hotel.batch.delay_ms) == ("test_", 128, 0)
    assert (hotel.source.slot, hotel.source.publication) == ("hotel", "hotel_pub")
    assert hotel.source.manage_publication is False
    assert [(index.name, index.enabled, index.on_error) for index in hotel.indexes] == [
        ("rooms", True, OnError.STOP),
        ("old_rooms", False, OnError.SKIP),
    ]
    main, copy = hotel.sinks
    assert isinstance(main, OpenSearchSettings)
    assert (main.batch_size, main.max_retries, main.text_analysis, main.auto_subfields) == (
        250,
        7,
        "icu",
        False,
    )
    assert copy == StdoutSettings("copy", pretty=True, backfill=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[server]\npublic_address = "nowhere"', "must be an address"),
        ('[server]\nadress = "h:1"', "did you mean"),
        ('[stream]\ntype = "kafka"', "the only type of stream"),
        ("[stream]\ncapacity = 1", '"type" is missing'),
        ("[batch]\nmax_delay_ms = 1\ndelay_ms = 2", "either delay_ms or max_delay_ms"),
    ],
)
def test_an_inherited_key_is_checked_like_any_other(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        source(tmp_path, f'connection_url = "host=h"\n{text}')


def test_the_schema_of_everything_uses_every_tag() -> None:
    text = (RUST / "everything/rooms.schema.yml").read_text()
    assert [tag for tag in sorted(TAGS) if f"- {tag}: " not in text] == []


def test_the_schema_of_everything_means_what_it_says(hotel: Deployment) -> None:
    schema = hotel.indexes[0].schema
    fields = {item.name: item for item in walk(schema.fields)}
    joins = {item.kind for item in fields.values() if isinstance(item, Join)}
    aggregates = {item.kind for item in fields.values() if isinstance(item, Aggregate)}
    assert (joins, aggregates) == (set(JoinKind), set(AggregateKind))
    assert isinstance(schema.soft_delete, SoftDelete)
    assert schema.soft_delete.column == "closed_on"
    assert fields["beds"] == Scalar("beds", ScalarKind.INTEGER, "beds", is_required=True, default=1)
    hotel_id = fields["hotel_id"]
    assert isinstance(hotel_id, Join)
    assert (hotel_id.column, hotel_id.table.schema) == (("hotel_id",), "hotel")
