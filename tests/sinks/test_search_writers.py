"""Who may write an index of a real search server, and what it forgets."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from test_opensearch import CONCRETE, SCHEMA, TARGET, Cluster

from flusso.builder.read import Built
from flusso.cli.clean import find_orphans
from flusso.document import Write
from flusso.engine import work
from flusso.engine.work import Destination, WorkSpec
from flusso.engine.writer import Writer
from flusso.errors import IndexTaken, SinkRefused, WriteExpired
from flusso.lsn import Version
from flusso.postgres.connect import Dsn
from flusso.schema.model import IndexSchema
from flusso.sinks.search.opensearch import OpenSearchSpec

pytestmark = pytest.mark.opensearch


@pytest.fixture
def cluster(opensearch_url: str) -> Iterator[Cluster]:
    made = Cluster(opensearch_url)
    yield made
    made.ask("DELETE", "/@*")
    made.sink.close()
    made.server.close()


def searched_by(analyzer: str) -> IndexSchema:
    """The schema, with another way to search its text."""
    fields = (
        replace(each, options={"search_analyzer": analyzer}) if each.name == "text" else each
        for each in SCHEMA.fields
    )
    return replace(SCHEMA, fields=tuple(fields))


PAUSED = """
import sys
from flusso.document import Write
from flusso.errors import FlussoError
from flusso.sinks.base import IndexTarget
from flusso.sinks.search.opensearch import OpenSearchSpec
sink = OpenSearchSpec("search", (sys.argv[1],), prefix=sys.argv[2], number_of_replicas=0).open()
target = IndexTarget("books", "a" * 64, 1, term=5)
sink.write(target, [Write("1", 5, b'{"text":"early"}')], refresh=True)
print("ready", flush=True)
sys.stdin.readline()
try:
    sink.write(target, [Write("1", 6, b'{"text":"late"}')], refresh=True)
except FlussoError as error:
    print(type(error).__name__, flush=True)
"""


def test_a_process_that_wakes_up_after_another_took_over_writes_nothing_though_removals_are_forgotten(
    cluster: Cluster,
) -> None:
    old, new = replace(TARGET, term=5), replace(TARGET, term=6)
    cluster.sink.ensure(old, SCHEMA)
    arguments = [sys.executable, "-c", PAUSED, cluster.spec.urls[0], cluster.spec.prefix]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as paused:
        assert paused.stdin is not None
        assert paused.stdout is not None
        assert paused.stdout.readline() == "ready\n"
        paused.send_signal(signal.SIGSTOP)
        paused.stdin.write("go\n")
        paused.stdin.flush()
        cluster.sink.ensure(new, SCHEMA)
        cluster.sink.write(new, [Write("1", 7, None)], refresh=True)
        for step in ("_close", "_open"):  # as a restart of the server: it forgets what was removed
            cluster.ask("POST", f"/@{CONCRETE}/{step}?wait_for_active_shards=1")
        paused.send_signal(signal.SIGCONT)
        assert paused.stdout.readline() == "GenerationGone\n"
    assert cluster.sink.read(new, ["1"]) == {}
    with pytest.raises(IndexTaken):
        cluster.sink.ensure(old, SCHEMA)


def test_a_removal_while_a_generation_is_filled_is_remembered_over_a_restart(cluster: Cluster) -> None:
    filled = replace(TARGET, keeps_removals=True)
    cluster.sink.ensure(filled, SCHEMA)
    cluster.sink.write(filled, [Write("1", 7, None)], refresh=False)
    for step in ("_close", "_open"):
        cluster.ask("POST", f"/@{CONCRETE}/{step}?wait_for_active_shards=1")
    late = cluster.sink.write(filled, [Write("1", 6, b'{"text":"late"}')], refresh=True)
    assert (late.superseded, cluster.sink.count(TARGET)) == (1, 0)


def test_settings_that_can_change_while_an_index_is_used_do(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    spec = OpenSearchSpec(
        "search", cluster.spec.urls, prefix=cluster.spec.prefix, number_of_replicas=1, refresh_interval="7s"
    )
    with contextlib.closing(spec.open()) as other:
        other.ensure(TARGET, SCHEMA)
    found = cluster.ask("GET", f"/@{CONCRETE}/_settings")[cluster.name(CONCRETE)]["settings"]["index"]
    assert (found["number_of_replicas"], found["refresh_interval"]) == ("1", "7s")


@pytest.mark.parametrize("name", [CONCRETE, f"{CONCRETE}_refs", "flusso_meta", "flusso_quarantine"])
def test_another_number_of_replicas_reaches_every_index_at_the_next_start(
    cluster: Cluster, name: str
) -> None:
    keeping = replace(TARGET, keeps_references=True)
    cluster.sink.ensure(keeping, SCHEMA)
    with contextlib.closing(replace(cluster.spec, number_of_replicas=1).open()) as other:
        other.ensure(keeping, SCHEMA)
    found = cluster.ask("GET", f"/@{name}/_settings")[cluster.name(name)]["settings"]["index"]
    assert found["number_of_replicas"] == "1"


def test_how_a_field_is_searched_changes_while_an_index_is_used(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    cluster.sink.write(TARGET, [Write("1", 1, b'{"text":"Bread Crumbs"}')], refresh=True)
    query = {"match": {"text": "bread crumbs"}}
    cluster.sink.ensure(TARGET, searched_by("keyword"))
    assert cluster.found(query) == []
    cluster.sink.ensure(TARGET, SCHEMA)
    assert cluster.found(query) == ["1"]


def test_a_way_to_search_that_the_server_does_not_know_is_told(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    with pytest.raises(SinkRefused, match="nobodys") as caught:
        cluster.sink.ensure(TARGET, searched_by("nobodys"))
    assert caught.value.hint == "correct the options of its fields"


def test_an_index_that_only_looks_like_ours_is_not_held(cluster: Cluster) -> None:
    cluster.ask("PUT", "/@books_0123456789ab_7")
    cluster.sink.ensure(TARGET, SCHEMA)
    assert [each.generation for each in cluster.sink.held()] == [1]


@pytest.mark.parametrize("says", [True, False], ids=["of its own", "of an earlier release"])
def test_a_generation_of_a_deployment_with_a_longer_prefix_is_not_held(cluster: Cluster, says: bool) -> None:
    longer = replace(cluster.spec, prefix=f"{cluster.spec.prefix}staging_")
    with contextlib.closing(longer.open()) as other:
        for sink in (other, cluster.sink):
            sink.ensure(TARGET, SCHEMA)
        if not says:
            for name in (CONCRETE, f"staging_{CONCRETE}"):
                cluster.ask("PUT", f"/@{name}/_mapping", {"_meta": {}})
        for sink in (other, cluster.sink):
            assert [each.index for each in sink.held()] == ["books"]
            assert find_orphans(sink) == list(sink.held())


def test_an_index_whose_name_begins_like_another_prefix_is_held(cluster: Cluster) -> None:
    longer = replace(cluster.spec, prefix=f"{cluster.spec.prefix}books_")
    target = replace(TARGET, index="books_sold")
    cluster.sink.ensure(target, SCHEMA)
    with contextlib.closing(longer.open()) as other:
        other.ensure(TARGET, SCHEMA)
        assert [each.index for each in other.held()] == ["books"]
    assert [each.index for each in cluster.sink.held()] == ["books_sold"]


def test_a_closed_index_is_held_like_any_other(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    cluster.ask("POST", f"/@{CONCRETE}/_close")
    assert [each.generation for each in cluster.sink.held()] == [1]


@pytest.mark.parametrize(("age", "is_late"), [(0.2, False), (0.3, True)])
def test_documents_that_were_built_long_ago_are_not_sent(cluster: Cluster, age: float, is_late: bool) -> None:
    """Long before the server forgets a removal that they would undo."""
    cluster.sink.ensure(TARGET, SCHEMA)
    born_s = time.monotonic() - age * cluster.spec.gc_deletes_s
    spec = WorkSpec(Dsn("host=nowhere"), {}, (), {"books": (Destination(cluster.spec, TARGET),)})
    with Writer(spec, Version(7), born_s=born_s) as writer:
        writer.put("books", [Built("1", b'{"text":"late"}')])
        with pytest.raises(WriteExpired) if is_late else contextlib.nullcontext():
            writer.finish()
    work.forget()
    assert len(cluster.sink.read(TARGET, ["1"])) == (0 if is_late else 1)
