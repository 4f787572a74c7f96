"""One Spark session for all tests that do not need one of their own: a start costs seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flusso.engine.session import Session, SparkSpec, open_session

PRELOADED = "colorsys"
"""A module that nobody would import otherwise: its workers begin with it."""


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Session]:
    """Spark on two slots, as a laptop would run it; its workers can import what the tests hand them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        session = open_session(SparkSpec("local[2]", preload=(PRELOADED,)))
    yield session
    session.close()
