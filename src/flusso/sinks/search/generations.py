"""Generations of an index in a search cluster: their names, how one is made and how readers move to it.

    {prefix}{index}_{digest}_{generation}                 the index itself
    {prefix}{index}_{digest}_{generation}_WRITER_{term}   an alias, for writers of one term
    {prefix}{index}                                       an alias, for readers: the published generation

Writers use an alias because a bulk request to an index that is gone would make it anew, without a mapping
(seen: a lone removal does, even with `require_alias`). An alias may have capital letters and an index may
not, so under this name nothing can be made by accident. Each start of flusso has a term of its own and takes
the alias of earlier ones away: what a process still sends that was thought dead, and wakes up hours later,
is refused by the server itself.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flusso.errors import GenerationGone, SinkRefused
from flusso.schema.model import Json
from flusso.sinks.base import Held, IndexTarget
from flusso.sinks.search.bulk import gone
from flusso.sinks.search.removals import MARK_MAPPING
from flusso.sinks.search.server import Answer, Server
from flusso.sinks.state import taken

_DIGEST_LENGTH = 12
_WRITER = "_WRITER"
_REFERENCES = "_refs"
_META = "flusso_meta"
_PREFIX = "flusso_prefix"
"""Where the mapping of a generation says under which prefix it was made."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names that a sink uses in its cluster."""

    prefix: str

    @property
    def meta(self) -> str:
        """Where the state is kept."""
        return f"{self.prefix}{_META}"

    @property
    def quarantine(self) -> str:
        """Where refused documents are kept."""
        return f"{self.prefix}flusso_quarantine"

    def own_writers(self, name: str) -> str:
        """The alias that one of those two is written to."""
        return f"{name}{_WRITER}"

    def readers(self, index: str) -> str:
        """The alias that applications search."""
        return f"{self.prefix}{index}"

    def concrete(self, target: IndexTarget) -> str:
        """The index of one generation."""
        return f"{self.prefix}{target.index}_{target.digest[:_DIGEST_LENGTH]}_{target.generation}"

    def writers(self, target: IndexTarget) -> str:
        """The alias that documents are written to."""
        return self._writers(self.concrete(target), target)

    def references(self, target: IndexTarget) -> str:
        """The index of its references."""
        return f"{self.concrete(target)}{_REFERENCES}"

    def reference_writers(self, target: IndexTarget) -> str:
        """The alias that references are written to."""
        return self._writers(self.references(target), target)

    def _writers(self, name: str, target: IndexTarget) -> str:
        return f"{name}{_WRITER}_{target.term}" if target.term else f"{name}{_WRITER}"

    def parse(self, name: str) -> tuple[str, str, int] | None:
        """Tell the index, digest and generation of a concrete name, or None when it cannot be one of ours."""
        pattern = rf"{re.escape(self.prefix)}(.+)_([0-9a-z]{{1,{_DIGEST_LENGTH}}})_(\d+)"
        found = re.fullmatch(pattern, name)
        return (found[1], found[2], int(found[3])) if found else None

    def generation_of(self, index: str, name: str) -> int | None:
        """Tell which generation of the index a concrete name is, or None when it is not one of ours."""
        pattern = rf"{re.escape(self.readers(index))}_[0-9a-z]{{1,{_DIGEST_LENGTH}}}_(\d+)"
        found = re.fullmatch(pattern, name)
        return int(found.group(1)) if found else None


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How an index is made."""

    number_of_shards: int
    number_of_replicas: int
    refresh_interval: str
    gc_deletes_s: float = 3600.0


def ensure_generation(
    server: Server, names: Names, target: IndexTarget, settings: IndexSettings, mapping: dict[str, Json]
) -> None:
    """Make the index of a generation unless it is there, with refreshing off until it is published.

    One that is there gets what can change while it is used: some settings, and how fields are searched.
    """
    _refuse_taken_alias(server, names, target.index)
    own = mapping["settings"]
    assert isinstance(own, dict)
    body: dict[str, Json] = {
        "settings": own
        | {
            "index.number_of_shards": settings.number_of_shards,
            "index.number_of_replicas": settings.number_of_replicas,
            "index.refresh_interval": "-1",
            "index.gc_deletes": f"{int(settings.gc_deletes_s * 1000)}ms",
        },
        "mappings": _with_own(mapping["mappings"], names),
        "aliases": {names.writers(target): {}},
    }
    if not create_index(server, names.concrete(target), body):
        _renew(server, names.concrete(target), body, settings, target)
    claim_writing(server, names.concrete(target), names.writers(target), target)


def _renew(
    server: Server, name: str, body: Mapping[str, Json], settings: IndexSettings, target: IndexTarget
) -> None:
    """Give an index that is in use what can change while it is."""
    live: dict[str, Json] = {
        "number_of_replicas": settings.number_of_replicas,
        "gc_deletes": f"{int(settings.gc_deletes_s * 1000)}ms",
    }
    if not target.keeps_removals:  # else it is being filled, and refreshing is off until it is published
        live["refresh_interval"] = settings.refresh_interval
    server.request("PUT", f"/{name}/_settings", {"index": live})
    answer = server.request("PUT", f"/{name}/_mapping", body["mappings"], allow=(400,))
    if answer.status == 400:
        raise SinkRefused(
            f'sink "{server.sink}" refused to change the mapping of index "{name}": {_explained(answer)}',
            hint="correct the options of its fields",
        )


def _with_own(mappings: Json, names: Names) -> Json:
    """Add what is ours to a mapping: the field of marks, and whose the index is."""
    assert isinstance(mappings, dict)
    properties = mappings.get("properties")
    marked = (properties if isinstance(properties, dict) else {}) | MARK_MAPPING
    return mappings | {"properties": marked, "_meta": {_PREFIX: names.prefix}}


def claim_writing(server: Server, name: str, alias: str, target: IndexTarget) -> None:
    """Make ours the only alias for writers of an index. Raises `IndexTaken` when a later start has one.

    Looks until that is so: another may be at it at the same moment.
    """
    while True:
        found = server.request("GET", f"/{name}/_alias").json[name]["aliases"]
        others = [other for other in found if other.startswith(f"{name}{_WRITER}") and other != alias]
        if any(_term_of(other) > target.term for other in others):
            raise taken(target.index)
        if alias in found and not others:
            return
        actions = [{"remove": {"index": name, "alias": other}} for other in others]
        actions.append({"add": {"index": name, "alias": alias}})
        server.request("POST", "/_aliases", {"actions": actions}, allow=(404,))


def claim_generation(server: Server, names: Names, target: IndexTarget) -> None:
    """Take the right to write whatever is there of a generation."""
    for name, alias in (
        (names.concrete(target), names.writers(target)),
        (names.references(target), names.reference_writers(target)),
    ):
        with contextlib.suppress(GenerationGone):
            claim_writing(server, name, alias, target)


def _term_of(alias: str) -> int:
    term = alias.rpartition("_")[2]
    return int(term) if term.isdecimal() else 0


def create_index(server: Server, name: str, body: object) -> bool:
    """Make an index; that it is there already is fine, and told by False."""
    answer = server.request("PUT", f"/{name}", body, allow=(400,))
    if answer.status == 400 and answer.error_type != "resource_already_exists_exception":
        raise SinkRefused(f'sink "{server.sink}" refused to make index "{name}": {_explained(answer)}')
    return answer.status != 400


def read_uuid(server: Server, name: str) -> str:
    """Tell an index from any other that had its name. Raises `GenerationGone` when there is none.

    One that is restored gets a new uuid; where a closed one was in its place it keeps that one's, and gets a
    new history.
    """
    found = server.request("GET", f"/{name}/_settings/index.uuid,index.history.uuid").json
    index = found[name]["settings"]["index"]
    history = index.get("history", {}).get("uuid")
    return f"{index['uuid']}/{history}" if history else str(index["uuid"])


def _explained(answer: Answer) -> str:
    """No document is involved here, so the server's own words can be shown."""
    return f"{answer.error_type}, {answer.reason}" if answer.reason else answer.error_type


def publish_generation(server: Server, names: Names, target: IndexTarget, refresh_interval: str) -> None:
    """Refresh the generation and move the readers' alias to it in one step.

    The step has a condition: that the alias for writers of our term is there. A later start has taken it
    away, so who was thought dead and wakes up between two requests moves nobody back. Someone may have taken
    the alias since it was looked at when the generation was made: it is not taken from them.
    """
    concrete, alias = names.concrete(target), names.readers(target.index)
    holders = _refuse_taken_alias(server, names, target.index)
    server.request("PUT", f"/{concrete}/_settings", {"index": {"refresh_interval": refresh_interval}})
    server.refresh(concrete)
    ours: dict[str, Json] = {"index": concrete, "alias": names.writers(target)}
    actions: list[Json] = [{"remove": ours | {"must_exist": True}}, {"add": ours}]
    actions += [{"remove": {"index": holder, "alias": alias}} for holder in holders if holder != concrete]
    actions.append({"add": {"index": concrete, "alias": alias}})
    answer = server.request("POST", "/_aliases", {"actions": actions}, allow=(404,))
    if answer.error_type == "aliases_not_found_exception":
        raise taken(target.index)
    if answer.status == 404:
        raise gone(f'sink "{server.sink}" cannot move readers of index "{target.index}": an index is gone')


def is_published(server: Server, names: Names, target: IndexTarget) -> bool:
    """Whether the readers' alias points at a generation alone."""
    return _holders(server, names, target.index) == [names.concrete(target)]


def list_generations(server: Server, names: Names) -> list[Held]:
    """List the generations that are there, whether anything is known of them or not.

    The name alone proves nothing, as others may use the like: ours have an alias for writers beside it, and
    say that they were made under our prefix. Another deployment may have a longer one that begins with it.
    """
    found = server.request("GET", f"/{names.prefix}*/_alias", params={"expand_wildcards": "all"}).json
    prefixes = _prefixes(server, names, found)
    held = []
    for name, facts in sorted(found.items()):
        parts = names.parse(name)
        if parts is None or not any(alias.startswith(f"{name}{_WRITER}") for alias in facts["aliases"]):
            continue
        if prefixes[name] != names.prefix:
            continue
        index, digest, generation = parts
        own = [each for each in (name, f"{name}{_REFERENCES}") if each in found]
        is_read = names.readers(index) in facts["aliases"]
        held.append(Held(index, digest, generation, sum(_size(server, each) for each in own), is_read))
    return held


def _prefixes(server: Server, names: Names, found: Iterable[str]) -> dict[str, str]:
    """Say of each index under which prefix it was made.

    Of one that does not say, as earlier ones: the longest under which something is remembered.
    """
    params = {"expand_wildcards": "all", "filter_path": f"*.mappings._meta.{_PREFIX}"}
    told = server.request("GET", f"/{names.prefix}*/_mapping", params=params).json
    remembered = [name.removesuffix(_META) for name in found if name.endswith(_META)]
    guessed = {
        name: max((each for each in remembered if name.startswith(each)), key=len, default=names.prefix)
        for name in found
    }
    return guessed | {name: facts["mappings"]["_meta"][_PREFIX] for name, facts in told.items()}


def _size(server: Server, name: str) -> int:
    """Give the bytes of an index, of a closed one too; none of one that has gone meanwhile."""
    params = {"forbid_closed_indices": "false"}
    answer = server.request("GET", f"/{name}/_stats/store", params=params, allow=(404,))
    store = answer.json["_all"]["primaries"].get("store", {}) if answer.status == 200 else {}
    return int(store.get("size_in_bytes", 0))


def drop_generation(server: Server, names: Names, target: IndexTarget) -> None:
    """Delete the indexes of a generation, unless readers see it; that they are gone already is fine."""
    concrete = names.concrete(target)
    if concrete in _holders(server, names, target.index):
        raise SinkRefused(f'readers of index "{target.index}" see generation {target.generation}')
    for name in (names.references(target), concrete):
        server.request("DELETE", f"/{name}", allow=(404,))


def _holders(server: Server, names: Names, index: str) -> list[str]:
    """List the indexes that the readers' alias points at."""
    answer = server.request("GET", f"/_alias/{names.readers(index)}", allow=(404,))
    return [] if answer.status == 404 else list(answer.json)


def _refuse_taken_alias(server: Server, names: Names, index: str) -> list[str]:
    """Give the generations that the readers' alias points at; raise when it is someone else's."""
    alias, holders = names.readers(index), _holders(server, names, index)
    for holder in holders:
        if names.generation_of(index, holder) is None:
            raise SinkRefused(
                f'alias "{alias}" points at index "{holder}", which flusso did not make',
                hint="remove the alias, or set another prefix",
            )
    found = server.request("GET", f"/{alias}/_settings/index.uuid", allow=(404,))
    if found.status == 200 and alias in found.json:
        raise SinkRefused(
            f'"{alias}" is an index of its own, so it cannot be the alias of index "{index}"',
            hint="delete or rename it, or set another prefix",
        )
    return holders
