"""What the demo tells: the shop becomes searchable, then changes, and the index follows.

Each change is committed over an ordinary connection, and then a search is repeated until it finds what
the change made of the document: the time in between is what is shown. No pause is guessed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial

from flusso.demo.reader import Document, IndexReader, differences, excerpt, parse
from flusso.demo.screen import Screen, duration
from flusso.demo.server import EmbeddedServer
from flusso.demo.stage import DATABASE, POSTGRES_MAJOR, Interrupted, Stage, connect_shop
from flusso.engine.events import BatchWritten, Event, SeedFinished, SeedStarted
from flusso.engine.session import Session
from flusso.postgres.connect import Connection

_CUSTOMER = 4711
_PRODUCT = 138
_CATEGORY = 18
_NEW_NAME = "Cookbooks & Stories"
_WARM_UPS = 12
_WARM_CUSTOMER = 7

_SIZES = """
select (select count(*) from public.customers),
       (select count(*) from public.orders),
       (select count(*) from public.order_items)
"""
_JOIN_LATER = """
update public.customers
set joined_on = joined_on + 1
where id = %s
returning joined_on::text
"""
_PLACE_ORDER = """
with product as (
    select id, price
    from public.products
    where id = %(product)s
), placed as (
    insert into public.orders (customer_id, status, total)
    select %(customer)s, 'paid', 2 * price
    from product
    returning id
)
insert into public.order_items (order_id, product_id, line, quantity, unit_price)
select placed.id, product.id, 1, 2, price
from placed, product
returning order_id
"""
_BUYERS = """
select distinct customers.id::text
from public.products
join public.order_items on order_items.product_id = products.id
join public.orders on orders.id = order_items.order_id
join public.customers on customers.id = orders.customer_id
where products.category_id = %s
  and not customers.is_deleted
"""
_PRODUCTS = """
select id::text
from public.products
where category_id = %s
  and is_active
"""


@dataclass(slots=True)
class _Figures:
    """What the summary adds up."""

    documents: int = 0
    seed_s: float = 0.0
    arrivals: list[tuple[str, str]] = field(default_factory=list)


def tell_story(stage: Stage, screen: Screen, *, keep: bool) -> None:
    """Run the demo from the first line to the summary; with `keep`, until it is interrupted."""
    started_s = time.monotonic()
    figures = _Figures()
    screen.say("flusso demo: a shop in Postgres, kept searchable while it changes\n", style="bold")
    server, session = _set_up(stage, screen)
    spec = stage.declare(server)
    stage.start_flusso(spec, session)
    _watch_seed(stage, screen, figures)
    with closing(IndexReader(spec.indexes[0].sinks[0].open())) as reader, connect_shop(server) as conn:
        acts = _Acts(stage, screen, conn, reader, figures)
        acts.warm_up()
        order = acts.place_order()
        acts.rename_category(order)
        acts.search()
        acts.delete_order(order)
    _sum_up(screen, figures, time.monotonic() - started_s)
    if keep:
        _stay(stage, screen, server)


def _set_up(stage: Stage, screen: Screen) -> tuple[EmbeddedServer, Session]:
    """Start Postgres and Spark side by side."""
    started_s = time.monotonic()
    with screen.busy("starting Postgres and Spark"):
        spark = stage.start_spark()
        server = stage.wait(stage.start_server())
        screen.done(
            f"Postgres {POSTGRES_MAJOR}, embedded, on port {server.port}", time.monotonic() - started_s
        )
        loading_s = time.monotonic()
        stage.wait(stage.load_shop(server))
        with connect_shop(server) as conn:
            customers, orders, items = conn.execute(_SIZES).fetchall()[0]
        what = f"shop: {customers:,} customers, {orders:,} orders, {items:,} order items"
        screen.done(what, time.monotonic() - loading_s)
        session = stage.wait(spark)
        screen.done(f"Spark, local[{session.slots}]", time.monotonic() - started_s)
    return server, session


def _watch_seed(stage: Stage, screen: Screen, figures: _Figures) -> None:
    """Draw the seed until every index is whole."""
    started_s = time.monotonic()
    seeding: set[str] = set()
    with screen.seeding() as draw:
        while True:
            event: Event = stage.next_event()
            draw(event)
            match event:
                case SeedStarted(index):
                    seeding.add(index)
                case SeedFinished(index, documents):
                    seeding.remove(index)
                    figures.documents += documents
                    if not seeding:
                        break
                case _:
                    pass
    figures.seed_s = time.monotonic() - started_s


@dataclass(slots=True)
class _Acts:
    """The live changes, with what they share."""

    stage: Stage
    screen: Screen
    conn: Connection
    reader: IndexReader
    figures: _Figures

    def warm_up(self) -> None:
        """Make some small changes first: a JVM and its Python workers are slow when they are new."""
        times = []
        for _ in range(_WARM_UPS):
            row = self.conn.execute(_JOIN_LATER, (_WARM_CUSTOMER,)).fetchone()
            assert row is not None
            times.append(self._arrival(_WARM_CUSTOMER, partial(_has_joined, day=row[0]))[1])
        what = f"warm-up: {_WARM_UPS} single-row changes, the first took {duration(times[0])}, the rest"
        self.screen.done(f"{what} {duration(statistics.median(times[1:]))}", sum(times))

    def place_order(self) -> int:
        """Insert an order; give its id."""
        before = self._read()
        self.screen.act(
            1, f"{before['name']} places an order", "insert into orders …; insert into order_items …"
        )
        row = self.conn.execute(_PLACE_ORDER, {"customer": _CUSTOMER, "product": _PRODUCT}).fetchone()
        assert row is not None
        order = int(row[0])
        after, seconds = self._arrival(_CUSTOMER, lambda found: _has_order(found, order))
        self._compare(before, after, order)
        self._arrived("a new order", "1 document", seconds)
        return order

    def rename_category(self, order: int) -> None:
        """Change one row that many documents contain."""
        before = self._read()
        customers = [row[0] for row in self.conn.execute(_BUYERS, (_CATEGORY,))]
        products = [row[0] for row in self.conn.execute(_PRODUCTS, (_CATEGORY,))]
        self.screen.act(
            2,
            "A category gets a new name",
            f"update categories set name = '{_NEW_NAME}' where id = {_CATEGORY}",
        )
        self.conn.execute("update public.categories set name = %s where id = %s", (_NEW_NAME, _CATEGORY))
        committed_s = time.monotonic()
        for index, rest in (("products", products), ("customers", customers)):
            self._await_name(index, rest)
        seconds = time.monotonic() - committed_s
        self._compare(before, self._read(), order)
        self._arrived("a renamed category", f"{len(customers) + len(products):,} documents", seconds)

    def search(self) -> None:
        """Find by words from the root, its orders' products, and the name that has just changed."""
        query = "giulia cookbook stories"
        started_s = time.monotonic()
        hits = self.reader.search("customers", query)
        seconds = time.monotonic() - started_s
        self.screen.act(3, "Full-text search", f"flusso search customers '{query}'")
        found = [(hit, parse(hit.body)) for hit in hits]
        self.screen.table(
            [
                (
                    f"{hit.score:.2f}",
                    document["name"],
                    document["city"],
                    f"{document['orderCount']} orders",
                    hit.id,
                )
                for hit, document in found
            ]
        )
        self.screen.say(f"    the best {len(hits)} in {duration(seconds)}", style="dim")

    def delete_order(self, order: int) -> None:
        """Delete a child: its parent must notice, though the row is gone."""
        before = self._read()
        self.screen.act(
            4, "The order is deleted, its items with it", f"delete from orders where id = {order}"
        )
        self.conn.execute("delete from public.orders where id = %s", (order,))
        after, seconds = self._arrival(_CUSTOMER, lambda found: not _has_order(found, order))
        self._compare(before, after, order)
        self._arrived("a deleted order", "1 document", seconds)

    def _read(self) -> Document:
        return self.stage.wait_for("the document", lambda: self.reader.find("customers", str(_CUSTOMER)))

    def _arrival(self, customer: int, is_there: Callable[[Document], bool]) -> tuple[Document, float]:
        """Search for the customer until the change shows; give the document and how long that took."""
        committed_s = time.monotonic()
        (email,) = self.conn.execute(
            "select email from public.customers where id = %s", (customer,)
        ).fetchall()[0]

        def look() -> Document | None:
            for hit in self.reader.search("customers", email, 1):
                document = parse(hit.body)
                if is_there(document):
                    return document
            return None

        found = self.stage.wait_for("the change", look)
        return found, time.monotonic() - committed_s

    def _await_name(self, index: str, ids: list[str]) -> None:
        """Wait until every one of the documents has the new name."""
        rest = ids

        def look() -> bool | None:
            nonlocal rest
            rest = self.reader.without(index, rest, _NEW_NAME)
            return not rest or None

        self.stage.wait_for("the new name", look)

    def _compare(self, before: Document, after: Document, order: int) -> None:
        rows = differences(excerpt(before, order, _PRODUCT), excerpt(after, order, _PRODUCT))
        self.screen.compare(f"customer {_CUSTOMER}", rows)

    def _arrived(self, change: str, what: str, seconds: float) -> None:
        self.screen.searchable(what, seconds)
        self.figures.arrivals.append((change, f"{what} searchable after {duration(seconds)}"))


def _has_joined(document: Document, day: str) -> bool:
    return bool(document["joinedOn"] == day)


def _has_order(document: Document, order: int) -> bool:
    return any(each["id"] == order for each in document["orders"])


def _sum_up(screen: Screen, figures: _Figures, seconds: float) -> None:
    rate = figures.documents / figures.seed_s
    screen.say(f"\nSummary: all of it in {duration(seconds)}", style="bold")
    screen.table(
        [
            ("seeded", f"{figures.documents:,} documents in {duration(figures.seed_s)} ({rate:,.0f}/s)"),
            *figures.arrivals,
        ]
    )


def _stay(stage: Stage, screen: Screen, server: EmbeddedServer) -> None:
    """Keep following until a signal; show what arrives."""
    _explain(stage, screen, server)
    with suppress(Interrupted):
        while True:
            match stage.next_event():
                case BatchWritten(changes, written, removed, _, _, seconds):
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
