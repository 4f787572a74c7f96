"""What a follower has built, in a real sink: documents, with the tokens by which they are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from flusso.builder.read import Built
from flusso.document import Write
from flusso.schema.model import IndexSchema
from flusso.sinks.base import IndexTarget, Sink


class Kept:
    """A generation of each index in a sink. Whatever is put later has a higher version."""

    def __init__(self, sink: Sink, schemas: Mapping[str, IndexSchema]) -> None:
        self._sink = sink
        self._targets = {name: IndexTarget(name, "a" * 64, 1, keeps_references=True) for name in schemas}
        self._version = 0
        for name, schema in schemas.items():
            sink.ensure(self._targets[name], schema)

    def put(self, index: str, documents: Iterable[Built]) -> None:
        """Write documents as they were built, and removals."""
        self._version += 1
        writes = [Write(each.id, self._version, each.body, each.tokens) for each in documents]
        if writes:
            done = self._sink.write(self._targets[index], writes, refresh=False)
            assert done.written + done.removed == len(writes), done

    def find(self, index: str, tokens: Sequence[str]) -> set[str]:
        """Look up the documents that have any of the tokens."""
        return set(self._sink.find_references(self._targets[index], tokens))
