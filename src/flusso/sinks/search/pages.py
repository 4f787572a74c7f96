"""Pages of the ids that an index holds, in an order that survives a restart of either side.

A scroll lives for minutes and an order by id would load every id into the server's memory. Each shard numbers
its writes, and those numbers are kept with the documents: so a page is a range of them in one shard. Only
numbers up to the highest at the beginning are read: a document that is written meanwhile gets a higher one,
and whoever pages through in order to write would otherwise never end.

A page keeps nothing open in the server, so whoever takes the ids may be as slow as they like.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from flusso.errors import SinkRefused
from flusso.schema.model import Json
from flusso.sinks.base import Page
from flusso.sinks.search.removals import without_marks
from flusso.sinks.search.server import Server


@dataclass(frozen=True, slots=True)
class _Place:
    shard: int
    number: int
    """Of the last write seen in the shard."""
    last: int
    """The highest number when the shard was begun."""

    def __str__(self) -> str:
        return f"{self.shard}:{self.number}:{self.last}"


def read_page(server: Server, name: str, after: str, limit: int) -> Page:
    """Give the ids that follow a place, from one shard, and the place they end at."""
    shards = _count_shards(server, name)
    place = _parse(after) if after else _begin(server, name, 0)
    while True:
        hits = _search(server, name, place, limit, without_marks({"match_all": {}}))
        if hits:
            return Page(tuple(_ids(hits)), str(_after(place, hits)))
        if place.shard + 1 >= shards:
            return Page((), "")
        place = _begin(server, name, place.shard + 1)


def walk_ids(server: Server, name: str, query: Json, limit: int, preference: str) -> Iterator[str]:
    """Go through the ids of all that a query finds, a page at a time; not of what is written meanwhile."""
    for shard in range(_count_shards(server, name)):
        place = _begin(server, name, shard, preference)
        while hits := _search(server, name, place, limit, query, preference):
            yield from _ids(hits)
            place = _after(place, hits)


def _search(
    server: Server, name: str, place: _Place, limit: int, query: Json, preference: str = ""
) -> list[dict[str, Any]]:
    if place.number >= place.last:
        return []
    numbers: Json = {"range": {"_seq_no": {"gt": place.number, "lte": place.last}}}
    wanted: Json = {"bool": {"filter": [query, numbers]}}
    return _in_shard(server, name, place.shard, "asc", limit, wanted, preference)


def _begin(server: Server, name: str, shard: int, preference: str = "") -> _Place:
    newest = _in_shard(server, name, shard, "desc", 1, {"match_all": {}}, preference)
    return _Place(shard, -1, int(newest[0]["sort"][0]) if newest else -1)


def _after(place: _Place, hits: list[dict[str, Any]]) -> _Place:
    return replace(place, number=int(hits[-1]["sort"][0]))


def _ids(hits: list[dict[str, Any]]) -> Iterator[str]:
    return (str(hit["_id"]) for hit in hits)


def _in_shard(
    server: Server, name: str, shard: int, order: str, limit: int, query: Json, preference: str
) -> list[dict[str, Any]]:
    body = {
        "query": query,
        "size": limit,
        "sort": [{"_seq_no": order}],
        "_source": False,
        "track_total_hits": False,
    }
    copies = f"_shards:{shard}|{preference}" if preference else f"_shards:{shard}"
    answer = server.whole("POST", f"/{name}/_search", body, params={"preference": copies})
    hits: list[dict[str, Any]] = answer.json["hits"]["hits"]
    return hits


def _count_shards(server: Server, name: str) -> int:
    answer = server.request(
        "GET", f"/{name}/_settings/index.number_of_shards", params={"flat_settings": "true"}
    )
    (found,) = answer.json.values()
    return int(found["settings"]["index.number_of_shards"])


def _parse(after: str) -> _Place:
    try:
        shard, number, last = map(int, after.split(":"))
    except ValueError:
        raise SinkRefused(f'"{after}" is no place between two pages of ids') from None
    return _Place(shard, number, last)
