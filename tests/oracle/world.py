"""A world: random tables, the indexes over them, and the files and statements that make it real.

One seed gives one world, and the same transactions of the same writers. How those of several writers
interleave is the seed's choice too where one thread takes all steps (`stepping`), and the machine's where
they run freely (`processes`).
"""

from __future__ import annotations

import os
import random
import secrets
from dataclasses import dataclass
from functools import cached_property

from oracle.evaluate import Documents, evaluate, read_rows
from oracle.schemas import Node, dump_yaml, random_index
from oracle.tables import Table, ddl, random_tables

EXACT = ("full", "index", "default")
"""With the default identity a row leaves no trace of its parent in the WAL: documents keep references."""
SEED_VARIABLE = "FLUSSO_ORACLE_SEED"


@dataclass(frozen=True)
class World:
    """Tables and indexes of one seed."""

    seed: str
    identity: str
    tables: tuple[Table, ...]
    nodes: dict[str, Node]
    """The schema of each index, as YAML would be read."""

    @cached_property
    def schemas(self) -> dict[str, str]:
        """The text of the schema file of each index."""
        return {name: dump_yaml(node) for name, node in self.nodes.items()}

    @cached_property
    def ddl(self) -> str:
        return ddl(self.tables, self.identity)

    def rng(self, purpose: str) -> random.Random:
        """Give the random numbers of one purpose, the same for the same seed."""
        return random.Random(f"{self.seed}/{purpose}")

    def expected(self, dsn: str) -> dict[str, Documents]:
        """Compute what every index must hold now."""
        rows = read_rows(dsn, self.tables)
        return {name: evaluate(node, rows) for name, node in self.nodes.items()}


def make_world(seed: str, identity: str | None = None) -> World:
    """Make the world of a seed, with an identity that the seed chooses too unless one is given."""
    identity = identity or random.Random(seed).choice(EXACT)
    rng = random.Random(f"{seed}/world/{identity}")
    tables = random_tables(rng, identity)
    nodes = {f"index{number}": random_index(rng, tables) for number in range(rng.choice((1, 1, 2, 3)))}
    return World(seed, identity, tables, nodes)


def new_seeds(count: int) -> list[str]:
    """Give seeds that nobody has seen before, or only the one that is to be played again."""
    return _given() or [secrets.token_hex(4) for _ in range(count)]


def fixed_seeds(*seeds: str) -> list[str]:
    """Give these seeds, or only the one that is to be played again."""
    return _given() or list(seeds)


def _given() -> list[str]:
    again = os.environ.get(SEED_VARIABLE)
    return [again] if again else []
