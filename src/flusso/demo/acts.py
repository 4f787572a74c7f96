"""The live changes of the demo: an order, a renamed category, a search, a deletion.

Each change is committed over an ordinary connection, and then a search is repeated until it finds what
the change made of the document: the time in between is what is shown. No pause is guessed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flusso.demo.reader import Document, IndexReader, describe, differences, excerpt, parse
from flusso.demo.screen import Screen, duration
from flusso.demo.stage import Stage
from flusso.postgres.connect import Connection, translated

_CUSTOMER = 4711
_PRODUCT = 138
_CATEGORY = 18
_NEW_NAME = "Cookbooks & Stories"
_WARM_UPS = 12
_WARM_CUSTOMER = 7

_JOIN_LATER = """
update public.customers
set joined_on = joined_on + 1
where id = %(customer)s
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
_RENAME = """
update public.categories
set name = %(name)s
where id = %(category)s
returning id
"""
_DELETE = """
delete from public.orders
where id = %(order)s
returning id
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


@dataclass(frozen=True, slots=True)
class Arrival:
    """How long a change took from its commit until a search found it."""

    change: str
    documents: int
    seconds: float

    def __str__(self) -> str:
        noun = "document" if self.documents == 1 else "documents"
        return f"{self.documents:,} {noun} searchable {duration(self.seconds)} after the commit"


@dataclass(slots=True)
class Acts:
    """The live changes, with what they share."""

    stage: Stage
    screen: Screen
    conn: Connection
    reader: IndexReader
    arrivals: list[Arrival] = field(default_factory=list)

    def warm_up(self) -> None:
        """Make some small changes first: a JVM and its Python workers are slow when they are new."""
        times = []
        with self.screen.busy("warming up with single-row changes"):
            for _ in range(_WARM_UPS):
                day = self._change(_JOIN_LATER, customer=_WARM_CUSTOMER)
                times.append(self._await_customer(_WARM_CUSTOMER, partial(_has_joined, day=day))[1])
        first, then = duration(times[0]), duration(statistics.median(times[1:]))
        self.screen.done(f"warm-up: {_WARM_UPS} changes, the first took {first}, the rest {then}", sum(times))

    def place_order(self) -> int:
        """Insert a child, with children of its own; give its id."""
        before = self._read()
        title = f"{before['name']} places an order"
        self.screen.act(1, title, "insert into orders …; insert into order_items …")
        order = int(self._change(_PLACE_ORDER, customer=_CUSTOMER, product=_PRODUCT))
        after, seconds = self._await_customer(_CUSTOMER, lambda found: _has_order(found, order))
        self._show(before, after, order, Arrival("a new order", 1, seconds))
        return order

    def rename_category(self, order: int) -> None:
        """Change one row that many documents contain."""
        before = self._read()
        customers = [row[0] for row in self.conn.execute(_BUYERS, (_CATEGORY,))]
        products = [row[0] for row in self.conn.execute(_PRODUCTS, (_CATEGORY,))]
        statement = f"update categories set name = '{_NEW_NAME}' where id = {_CATEGORY}"
        self.screen.act(2, "A category gets a new name", statement)
        self._change(_RENAME, name=_NEW_NAME, category=_CATEGORY)
        committed_s = time.monotonic()
        self._await_name("products", products)
        self._await_name("customers", customers)
        seconds = time.monotonic() - committed_s
        arrival = Arrival("a renamed category", len(customers) + len(products), seconds)
        self._show(before, self._read(), order, arrival)

    def search(self) -> None:
        """Find by words of the customer, of the products bought, and of the name that has just changed."""
        query = "giulia cookbook stories"
        started_s = time.monotonic()
        hits = self.reader.search("customers", query)
        seconds = time.monotonic() - started_s
        self.screen.act(3, "Full-text search", f"flusso search customers '{query}'")
        self.screen.table([(f"{hit.score:.1f}", *describe(parse(hit.body), _NEW_NAME)) for hit in hits])
        self.screen.say(f"    the best {len(hits)}, found in {duration(seconds)}", style="dim")

    def delete_order(self, order: int) -> None:
        """Delete a child: its parent must notice, though the row is gone."""
        before = self._read()
        self.screen.act(
            4, "The order is deleted, its items with it", f"delete from orders where id = {order}"
        )
        self._change(_DELETE, order=order)
        after, seconds = self._await_customer(_CUSTOMER, lambda found: not _has_order(found, order))
        self._show(before, after, order, Arrival("a deleted order", 1, seconds))

    def _change(self, sql: str, **values: object) -> Any:
        """Commit a change; give what it returns."""
        with translated("the shop refused a change"):
            row = self.conn.execute(sql.encode(), values).fetchone()
        return row[0] if row is not None else None

    def _read(self) -> Document:
        return self.stage.wait_for("the customer", lambda: self.reader.find("customers", str(_CUSTOMER)))

    def _await_customer(self, customer: int, is_there: Callable[[Document], bool]) -> tuple[Document, float]:
        """Search for a customer until the change shows; give the document and how long it took."""
        committed_s = time.monotonic()
        email = self._change("select email from public.customers where id = %(id)s", id=customer)

        def look() -> Document | None:
            found = [parse(hit.body) for hit in self.reader.search("customers", email, 1)]
            return next((document for document in found if is_there(document)), None)

        return self.stage.wait_for("the change", look), time.monotonic() - committed_s

    def _await_name(self, index: str, ids: list[str]) -> None:
        """Wait until every one of the documents has the new name."""
        rest = ids

        def look() -> bool | None:
            nonlocal rest
            rest = self.reader.without(index, rest, _NEW_NAME)
            return not rest or None

        self.stage.wait_for("the new name", look)

    def _show(self, before: Document, after: Document, order: int, arrival: Arrival) -> None:
        rows = differences(excerpt(before, order), excerpt(after, order))
        self.screen.compare(f"customer {_CUSTOMER}", rows)
        self.screen.arrived(str(arrival))
        self.arrivals.append(arrival)


def _has_joined(document: Document, day: str) -> bool:
    return bool(document["joinedOn"] == day)


def _has_order(document: Document, order: int) -> bool:
    return any(each["id"] == order for each in document["orders"])
