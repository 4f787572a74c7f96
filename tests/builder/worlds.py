"""All worlds of the resolution matrix: chains of relations, and what is special."""

from __future__ import annotations

from chains import BELONGS_TO, HAS_MANY, MANY_TO_MANY, chain
from matrix import DEFAULT, FULL, IDENTITIES, INDEX
from worlds_of_keys import by_unique_column, composite
from worlds_of_links import LONG, ODD
from worlds_of_partitions import MIXED, partitioned
from worlds_of_tables import SELF, SEVERAL

from sizes import IS_FULL

CHAINS = (
    chain((), FULL),
    chain((), INDEX),
    chain((), DEFAULT),
    chain((HAS_MANY,), FULL),
    chain((HAS_MANY,), INDEX),
    chain((BELONGS_TO,), DEFAULT),
    chain((MANY_TO_MANY,), INDEX),
    chain((HAS_MANY, BELONGS_TO), FULL),
    chain((MANY_TO_MANY, HAS_MANY), DEFAULT),
    chain((HAS_MANY, HAS_MANY, HAS_MANY), INDEX),
    chain((BELONGS_TO, HAS_MANY, MANY_TO_MANY), FULL),
)
FURTHER_CHAINS = (
    chain((HAS_MANY,), DEFAULT),
    chain((BELONGS_TO,), FULL),
    chain((BELONGS_TO,), INDEX),
    chain((MANY_TO_MANY,), FULL),
    chain((MANY_TO_MANY,), DEFAULT),
    chain((BELONGS_TO, MANY_TO_MANY), INDEX),
    chain((BELONGS_TO, BELONGS_TO), DEFAULT),
    chain((MANY_TO_MANY, MANY_TO_MANY), FULL),
    chain((BELONGS_TO, BELONGS_TO, BELONGS_TO), FULL),
    chain((MANY_TO_MANY, BELONGS_TO, HAS_MANY), DEFAULT),
    chain((HAS_MANY, MANY_TO_MANY, BELONGS_TO), INDEX),
)
WORLDS = (
    *CHAINS,
    *(FURTHER_CHAINS if IS_FULL else ()),
    *map(composite, IDENTITIES),
    *map(by_unique_column, IDENTITIES),
    SELF,
    SEVERAL,
    *map(partitioned, IDENTITIES),
    MIXED,
    ODD,
    LONG,
)
