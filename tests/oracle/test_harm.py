"""The second tier: one short run into both kinds of sink at once, and in `make stress` one that must fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fix_postgres import Database, fresh_database
from flusso.demo.server import create_server
from oracle.compare import Wrong
from oracle.processes import Scene, play
from oracle.world import fixed_seeds, make_world
from sizes import IS_FULL

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

_own = contextmanager(fresh_database)


@pytest.fixture
def own_database() -> Iterator[Database]:
    """A database on a server that may be restarted."""
    server = create_server(18)
    with _own(server) as database:
        yield database
    server.remove()


@pytest.mark.opensearch
@pytest.mark.parametrize("seed", fixed_seeds("processes"))
def test_killed_and_restarted_at_random_moments_it_is_exact_in_the_end(
    own_database: Database, opensearch_url: str, tmp_path: Path, seed: str
) -> None:
    world = make_world(seed, "default")  # as Postgres comes, and hardest for flusso
    harms = ["kill -9", "kill -9", "Postgres crashed"]
    assert play(Scene(own_database, world, tmp_path, opensearch_url), harms, is_early=True)


@pytest.mark.sized
@pytest.mark.skipif(not IS_FULL, reason="a mutant of the first tier takes seconds; make stress has this one")
def test_a_flusso_that_confirms_early_is_noticed(
    own_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    command = [sys.executable, "-m", "oracle.mutants", "confirm_batches_early"]
    scene = Scene(own_database, make_world("confirm_early"), tmp_path, command=command)
    with pytest.raises(Wrong):
        play(scene, ["kill -9"])
    assert scene.log == ["kill -9"]
