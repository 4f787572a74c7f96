"""What the demo tells: the shop becomes searchable, then changes, and the index follows.

The frame around the live changes of `acts`: set up, seed, sum up, and stay if asked to. Runs in the main
thread; `stage` does the work beside it and raises `Interrupted` here when a signal has come.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from contextlib import closing, suppress

from flusso.demo.acts import Acts, Arrival
from flusso.demo.reader import IndexReader
from flusso.demo.screen import Screen, duration
from flusso.demo.server import EmbeddedServer
from flusso.demo.stage import DATABASE, POSTGRES_MAJOR, Interrupted, Stage, connect_shop
from flusso.engine.events import BatchWritten, Following, ReadersMoved, SeedFinished, SeedStarted
from flusso.engine.session import Session

_SIZES = """
select (select count(*) from public.customers),
       (select count(*) from public.orders),
       (select count(*) from public.order_items)
"""


def tell_story(stage: Stage, screen: Screen, *, keep: bool) -> None:
    """Run the demo from the first line to the summary; with `keep`, until it is interrupted."""
    started_s = time.monotonic()
    screen.say("flusso demo: a shop in Postgres, kept searchable while it changes\n", style="bold")
    server, session = _set_up(stage, screen)
    spec = stage.declare(server)
    stage.start_flusso(spec, session)
    _await_following(stage, screen)
    seeded = _watch_seed(stage, screen)
    with closing(IndexReader(spec.indexes[0].sinks[0].open())) as reader, connect_shop(server) as conn:
        acts = Acts(stage, screen, conn, reader)
        acts.warm_up()
        order = acts.place_order()
        acts.rename_category(order)
        acts.search()
        acts.delete_order(order)
    _sum_up(screen, seeded, acts.arrivals, time.monotonic() - started_s)
    if keep:
        _stay(stage, screen, server)


def _set_up(stage: Stage, screen: Screen) -> tuple[EmbeddedServer, Session]:
    """Start Postgres and Spark side by side."""
    started_s = time.monotonic()
    with screen.busy("starting Postgres and Spark"):
        spark = stage.start_spark()
        server = stage.wait(stage.start_server())
        started = f"Postgres {POSTGRES_MAJOR}, embedded, on port {server.port}"
        screen.done(started, time.monotonic() - started_s)
        loading_s = time.monotonic()
        stage.wait(stage.load_shop(server))
        with connect_shop(server) as conn:
            customers, orders, items = conn.execute(_SIZES).fetchall()[0]
        loaded = f"shop: {customers:,} customers, {orders:,} orders, {items:,} order items"
        screen.done(loaded, time.monotonic() - loading_s)
        session = stage.wait(spark)
        screen.done(f"Spark, local[{session.slots}], started meanwhile", time.monotonic() - started_s)
    return server, session


def _await_following(stage: Stage, screen: Screen) -> None:
    started_s = time.monotonic()
    with screen.busy("publication, slot, live query"):
        while not isinstance(event := stage.next_event(), Following):
            pass
    screen.done(f"flusso follows slot {event.slot} from {event.lsn}", time.monotonic() - started_s)


def _watch_seed(stage: Stage, screen: Screen) -> list[SeedFinished]:
    """Draw the seed until readers see every index."""
    seeding: set[str] = set()
    finished: list[SeedFinished] = []
    seen: set[str] = set()
    with screen.seeding() as draw:
        while not finished or seen < seeding:
            event = stage.next_event()
            draw(event)
            match event:
                case SeedStarted(index):
                    seeding.add(index)
                case SeedFinished():
                    finished.append(event)
                case ReadersMoved(index):
                    seen.add(index)
                case _:
                    pass
    return finished


def _sum_up(screen: Screen, seeded: list[SeedFinished], arrivals: list[Arrival], seconds: float) -> None:
    documents, seed_s = sum(each.documents for each in seeded), max(each.seconds for each in seeded)
    rate = f"{documents / seed_s:,.0f}/s"
    screen.say(f"\nSummary: the whole demo took {duration(seconds)}", style="bold")
    screen.table(
        [
            ("the seed", f"{documents:,} documents in {duration(seed_s)}, {rate}"),
            *((arrival.change, str(arrival)) for arrival in arrivals),
        ]
    )


def _stay(stage: Stage, screen: Screen, server: EmbeddedServer) -> None:
    """Keep following until a signal; show what arrives."""
    _explain(stage, screen, server)
    stage.forget_events()
    with suppress(Interrupted):
        while True:
            match stage.next_event():
                case BatchWritten(changes, written, removed, _, _, seconds) if changes:
                    what = f"{changes:,} changes → {written:,} documents written, {removed:,} removed"
                    screen.say(f"    {time.strftime('%H:%M:%S')}  {what} in {duration(seconds)}", style="dim")
                case _:
                    pass


def _explain(stage: Stage, screen: Screen, server: EmbeddedServer) -> None:
    psql = "psql" if shutil.which("psql") else str(server.binaries / "psql")
    flusso = shlex.quote(sys.argv[0] if os.path.sep in sys.argv[0] else "flusso")
    # A DATABASE_URL of the user's would win over the file.
    clean = "env -u DATABASE_URL " if os.environ.get("DATABASE_URL") else ""
    screen.say("\nStill following. Change something, in another terminal, and search for it:", style="bold")
    screen.say(f"    {psql} -h 127.0.0.1 -p {server.port} -U flusso {DATABASE}")
    screen.say(f"    {clean}{flusso} search customers 'giulia cookbook' -c {stage.config}")
    screen.say(f"    {clean}{flusso} status -c {stage.config}")
    screen.say(f"  The index is one file: {stage.folder / 'shop.sqlite'}", style="dim")
    screen.say("  Ctrl-C ends it and removes everything.\n", style="dim")
