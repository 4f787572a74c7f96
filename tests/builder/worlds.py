"""All worlds of the resolution matrix: chains of relations, and what is special."""

from __future__ import annotations

from chains import BELONGS_TO, DEFAULT, FULL, HAS_MANY, INDEX, MANY_TO_MANY, chain
from worlds_of_keys import COMPOSITE, LONG, ODD, by_unique_column
from worlds_of_tables import MIXED, PARTITIONED, SELF, SEVERAL

from sizes import IS_FULL

CHAINS = (
    chain((), FULL),
    chain((), INDEX),
    chain((), DEFAULT),
    chain((HAS_MANY,)),
    chain((BELONGS_TO,)),
    chain((MANY_TO_MANY,)),
    chain((HAS_MANY,), INDEX),
    chain((HAS_MANY, BELONGS_TO)),
    chain((MANY_TO_MANY, HAS_MANY)),
    chain((HAS_MANY, HAS_MANY, HAS_MANY)),
    chain((BELONGS_TO, HAS_MANY, MANY_TO_MANY)),
)
FURTHER_CHAINS = (
    chain((BELONGS_TO,), DEFAULT),
    chain((MANY_TO_MANY,), INDEX),
    chain((BELONGS_TO, MANY_TO_MANY)),
    chain((BELONGS_TO, BELONGS_TO)),
    chain((MANY_TO_MANY, MANY_TO_MANY)),
    chain((BELONGS_TO, BELONGS_TO, BELONGS_TO)),
    chain((MANY_TO_MANY, BELONGS_TO, HAS_MANY)),
    chain((HAS_MANY, MANY_TO_MANY, BELONGS_TO)),
)
WORLDS = (
    *CHAINS,
    *(FURTHER_CHAINS if IS_FULL else ()),
    COMPOSITE,
    by_unique_column(FULL),
    by_unique_column(INDEX),
    SELF,
    SEVERAL,
    PARTITIONED,
    MIXED,
    ODD,
    LONG,
)
