"""A place of its own in every kind of sink that keeps documents, for each test of the contract."""

from __future__ import annotations

import itertools
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from books import FIRST, SCHEMA

from flusso.sinks.base import Sink, SinkSpec
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.sqlite import SqliteSpec

_numbers = itertools.count(1)


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SinkSpec]:
    """A new place for each test, for every kind that keeps documents."""
    if request.param == "sqlite":
        yield SqliteSpec("kept", tmp_path / "search.db")
        return
    url = request.getfixturevalue("opensearch_url")
    prefix = f"contract{os.getpid()}_{next(_numbers)}_"
    yield OpenSearchSpec("kept", (url,), prefix=prefix, number_of_replicas=0)
    with urllib.request.urlopen(urllib.request.Request(f"{url}/{prefix}*", method="DELETE"), timeout=30):
        pass


@pytest.fixture
def sink(spec: SinkSpec) -> Iterator[Sink]:
    """An open sink with an empty first generation."""
    opened = spec.open()
    opened.ensure(FIRST, SCHEMA)
    yield opened
    opened.close()
