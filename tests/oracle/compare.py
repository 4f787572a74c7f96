"""Compare what an index holds with what it must hold, both ways, and tell of the first differences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oracle.evaluate import Documents, parse_body
from oracle.values import Number
from oracle.world import SEED_VARIABLE, World

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """One document that is not what it must be; None where there is none."""

    index: str
    id: str
    expected: str | None
    found: str | None

    def __str__(self) -> str:
        return f"{self.index} {self.id!r}\n  expected {self.expected}\n  found    {self.found}"


class Wrong(AssertionError):
    """An index is not exact: the seed, the world and what differs."""

    def __init__(self, world: World, where: str, differences: list[Difference], told: str = "") -> None:
        self.differences = differences
        shown = "\n".join(map(str, differences[:_SHOWN]))
        schemas = "\n".join(f"# {name}.schema.yml\n{text}" for name, text in world.schemas.items())
        super().__init__(
            f"{len(differences)} documents differ in {where}, with {SEED_VARIABLE}={world.seed} "
            f"and replica identity {world.identity}\n\n{world.ddl}\n{schemas}\n{told}\n{shown}"
        )


def differences(
    expected: Mapping[str, Documents], found: Mapping[str, Mapping[str, bytes]]
) -> list[Difference]:
    """List all documents that differ, are missing or are too many."""
    return [each for index in expected for each in _of_index(index, expected[index], found[index])]


def _of_index(index: str, expected: Documents, found: Mapping[str, bytes]) -> Iterator[Difference]:
    for id_ in sorted(expected.keys() | found.keys()):
        wanted = _canonical(expected[id_]) if id_ in expected else None
        held = _canonical(parse_body(found[id_])) if id_ in found else None
        if wanted != held:
            yield Difference(index, id_, wanted, held)


def _canonical(document: object) -> str:
    """Write a document so that equal ones, and only those, give the same text."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, default=_number)


def _number(value: object) -> object:
    assert isinstance(value, Number), value
    return {"number": value.text}
