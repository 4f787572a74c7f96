"""A place of its own in every kind of sink that keeps documents, for each test of the contract."""

from __future__ import annotations

import itertools
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from books import FIRST, SCHEMA

from flusso.sinks.base import Sink, SinkSpec
from flusso.sinks.search.connection import SearchSpec
from flusso.sinks.search.elasticsearch import ElasticsearchSpec
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.sqlite import SqliteSpec

_numbers = itertools.count(1)


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("opensearch", marks=pytest.mark.opensearch),
        pytest.param("elasticsearch", marks=pytest.mark.opensearch),
    ]
)
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SinkSpec]:
    """A new place for each test, for every kind that keeps documents."""
    if request.param == "sqlite":
        yield SqliteSpec("kept", tmp_path / "search.db")
        return
    url = request.getfixturevalue(f"{request.param}_url")
    yield from searched(request.param, url)


def searched(kind: str, url: str) -> Iterator[SearchSpec]:
    """A sink under a prefix of its own, deleted afterwards."""
    prefix = f"contract{os.getpid()}_{next(_numbers)}_"
    common: dict[str, Any] = {"prefix": prefix, "number_of_replicas": 0}
    if kind == "opensearch":
        yield OpenSearchSpec("kept", (url,), **common)
    else:  # the smallest distribution has no module for analysis
        yield ElasticsearchSpec("kept", (url,), **common, text_analysis="plain")
    asked = f"{url}/_cat/indices/{prefix}*?h=index"
    with urllib.request.urlopen(asked, timeout=30) as answer:
        names = answer.read().decode().split()
    for name in names:  # by their names: a newer server refuses to delete by a pattern
        with urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="DELETE"), timeout=30):
            pass


@pytest.fixture
def sink(spec: SinkSpec) -> Iterator[Sink]:
    """An open sink with an empty first generation."""
    opened = spec.open()
    opened.ensure(FIRST, SCHEMA)
    yield opened
    opened.close()
