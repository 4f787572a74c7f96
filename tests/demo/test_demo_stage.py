from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from flusso.demo import stage as stage_module
from flusso.demo.server import EmbeddedServer
from flusso.demo.stage import Interrupted, Stage
from flusso.errors import EngineError
from flusso.sinks.sqlite import SqliteSpec


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


@pytest.fixture
def stage(stop: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Stage(stop) as stage:
        yield stage


def _server(folder: Path) -> EmbeddedServer:
    return EmbeddedServer(folder, folder, 5999, None)


def test_the_deployment_that_the_demo_writes_can_be_read(stage: Stage) -> None:
    spec = stage.declare(_server(stage.folder))
    assert [index.name for index in spec.indexes] == ["customers", "products"]
    assert spec.indexes[0].sinks == (SqliteSpec("local", stage.folder / "shop.sqlite"),)


def test_a_database_url_of_the_users_does_not_lead_the_demo_elsewhere(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://production/shop")
    assert stage.declare(_server(stage.folder)).dsn.keywords()["port"] == "5999"


def test_a_request_to_stop_ends_any_wait(stage: Stage, stop: threading.Event) -> None:
    threading.Timer(0.05, stop.set).start()
    with pytest.raises(Interrupted):
        stage.wait(Future[None]())


def test_what_does_not_come_in_time_is_an_error_that_names_it(stage: Stage) -> None:
    with pytest.raises(EngineError, match="the change is still not there"):
        stage.wait_for("the change", lambda: None, within_s=0.02)


def test_a_failure_in_a_thread_comes_out_of_the_wait(stage: Stage) -> None:
    failed: Future[None] = Future()
    failed.set_exception(EngineError("no memory"))
    with pytest.raises(EngineError, match="no memory"):
        stage.wait(failed)


def test_the_end_of_the_stage_removes_a_server_that_is_just_being_made(
    stop: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def create_slowly(major: int) -> EmbeddedServer:
        begun.set()
        assert may_end.wait(10)
        (tmp_path / "server").mkdir()
        return _server(tmp_path / "server")

    monkeypatch.setattr(stage_module, "create_server", create_slowly)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Stage(stop) as stage:
        stage.start_server()
        assert begun.wait(10)
        threading.Timer(0.05, may_end.set).start()
    assert not list(tmp_path.iterdir())
