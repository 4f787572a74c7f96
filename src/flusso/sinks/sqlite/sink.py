"""The SQLite sink: the whole contract of `sinks/base.py` over one file.

Each generation has a number, its *target*; all documents are in one table, and each generation has a
full-text table of its own (`search_<target>`), so that ranking counts words of that index alone and an old
generation goes by dropping a table. A write is one transaction: what it compares cannot change under it.

An open sink stays with the file that it opened. Somebody may delete that file, or put another in its place:
SQLite would go on with what has no name any more, and lose it at the end. So a write looks whether the file
is still there before it counts. Whoever begins anew opens the file that is there.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from flusso.document import Refusal, Write, WriteResult
from flusso.errors import GenerationGone, SinkUnavailable
from flusso.schema.model import IndexSchema, Json
from flusso.sinks.base import (
    Capabilities,
    Held,
    Hit,
    IndexState,
    IndexTarget,
    Page,
    Request,
    Sink,
    States,
    Stored,
)
from flusso.sinks.sqlite import quarantine
from flusso.sinks.sqlite.documents import merge_writes
from flusso.sinks.sqlite.file import identity_of, open_file, transaction, translated
from flusso.sinks.sqlite.fulltext import (
    TOKENIZER,
    match_expression,
    select_all,
    select_matching,
    text_of,
)
from flusso.sinks.sqlite.generations import drop_generation, find_generation, is_published, list_generations
from flusso.sinks.sqlite.references import (
    count_due,
    ensure_tables,
    find_due,
    forget_due,
    page_of_documents,
    remember_due,
    write_tokens,
)
from flusso.sinks.state import request_key, request_to_text, state_key, state_to_json, states_of, taken
from flusso.sinks.where import has_value

_BUSY_TIMEOUT_S = 30.0
_PAGE = 5000
_CLOSE_S = 1.0
_NO_FILE = Path(":memory:")


@dataclass(frozen=True, slots=True)
class SqliteSpec:
    """Keep documents in one SQLite file of this machine."""

    name: str
    path: str | Path
    makes_file: bool = True
    """Whether to open it makes the file; else one that is not there counts as empty."""

    def __post_init__(self) -> None:
        # An executor's working folder is not the driver's.
        object.__setattr__(self, "path", Path(self.path).absolute())

    @property
    def capabilities(self) -> Capabilities:
        """Everything, on one machine."""
        return Capabilities(is_single_host=True)

    @property
    def shape(self) -> Mapping[str, Json]:
        """Nothing here changes a document."""
        return {}

    def open(self) -> Sink:
        """Open the file; one that is not there is made, or stays so."""
        return SqliteSink(self)


class SqliteSink:
    """An open SQLite file."""

    def __init__(self, spec: SqliteSpec, *, busy_timeout_s: float = _BUSY_TIMEOUT_S) -> None:
        self._spec = spec
        self._path = Path(spec.path)
        self._has_file = spec.makes_file or self._path.exists()
        self._conn = open_file(self._path if self._has_file else _NO_FILE, busy_timeout_s)
        self._file = identity_of(self._path)
        self._in_use = threading.RLock()
        self._is_closed = False

    def ensure(self, target: IndexTarget, schema: IndexSchema) -> None:
        """Register the generation and make its full-text table."""
        with self._transaction():
            self._conn.execute(
                "insert or ignore into generations (name, digest, generation) values (?, ?, ?)",
                (target.index, target.digest, target.generation),
            )
            self._conn.execute(
                f"create virtual table if not exists search_{self._number(target)}"
                f" using fts5(body, tokenize = '{TOKENIZER}')"
            )
            if target.keeps_references:
                ensure_tables(self._conn)

    def write(
        self, target: IndexTarget, writes: Sequence[Write], *, refresh: bool, until: float | None = None
    ) -> WriteResult:
        """Apply what is not older than what is there, in one transaction; it can be searched at once."""
        texts, refusals = self._texts(target, writes)
        with self._transaction():
            number = self._number(target)
            merged = merge_writes(self._conn, number, writes, texts)
            if target.keeps_references:
                seqs = {row.id: row.seq for row in merged.rows}
                known = (
                    write for write in writes if write.id in seqs and (write.tokens or write.body is None)
                )
                write_tokens(self._conn, number, ((seqs[write.id], write.tokens) for write in known))
        written = sum(row.body is not None for row in merged.rows)
        removed = len(merged.rows) - written
        return WriteResult(written, removed, merged.superseded, refusals, merged.newest_conflict)

    def _texts(
        self, target: IndexTarget, writes: Sequence[Write]
    ) -> tuple[dict[str, str], tuple[Refusal, ...]]:
        """Gather what can be searched before the file is locked; what is not JSON is refused."""
        fields = frozenset(target.text_fields)
        texts: dict[str, str] = {}
        refusals: list[Refusal] = []
        for write in writes:
            if write.body is None:
                continue
            try:
                texts[write.id] = text_of(write.body, fields)
            except ValueError as error:
                reason = f"not readable as JSON ({type(error).__name__})"
                refusals.append(Refusal(target.index, write.id, write.version, self._spec.name, reason))
        return texts, tuple(refusals)

    def refresh(self, target: IndexTarget) -> None:
        """A committed write can be searched already."""

    def uuids(self, target: IndexTarget) -> tuple[str, ...] | None:
        """Look for the generation, in the file that is there now; what is remembered is in the same file."""
        with self._using():
            is_there = self._is_in_place() and find_generation(self._conn, target) is not None
            return () if is_there else None

    def is_read(self, target: IndexTarget) -> bool:
        """Look where readers are pointed."""
        with self._reading():
            return is_published(self._conn, target)

    def purge(self, target: IndexTarget) -> None:
        """A removal keeps its row, with its version: there is nothing to take out."""

    def publish(self, target: IndexTarget) -> None:
        """Point readers at the generation, unless a later start remembers it by now."""
        with self._transaction():
            number = self._number(target)
            self._refuse_later(target.index, target.generation, target.term)
            self._conn.execute("insert or replace into published values (?, ?)", (target.index, number))

    def claim(self, target: IndexTarget) -> None:
        """Whoever saves a state has it: what an earlier start still writes is told by its version."""

    def held(self) -> Sequence[Held]:
        """List the generations of the file."""
        with self._reading():
            return list_generations(self._conn)

    def drop(self, target: IndexTarget) -> None:
        """Remove the documents, the full-text table and the state in one transaction."""
        with self._transaction():
            drop_generation(self._conn, target)

    def read(self, target: IndexTarget, ids: Sequence[str]) -> Mapping[str, Stored]:
        """Fetch documents by id."""
        with self._reading():
            rows = self._conn.execute(
                "select id, version, cast(body as blob) from documents"
                " where target = ? and body is not null and id in (select value from json_each(?))",
                (self._number(target), json.dumps(list(ids))),
            )
            return {id_: Stored(version, body) for id_, version, body in rows}

    def mended(self, target: IndexTarget, body: bytes) -> bytes | None:
        """Every document that is taken is taken as it is."""
        return None

    def ids(self, target: IndexTarget) -> Iterator[str]:
        """Go through all ids, page by page, so that no read holds the log back."""
        after, is_last = "", False
        while not is_last:
            page = self.page(target, after, _PAGE)
            yield from page.ids
            after, is_last = page.after, not page.after

    def page(self, target: IndexTarget, after: str, limit: int) -> Page:
        """Give the next ids in their order; none is empty."""
        with self._reading():
            rows = self._conn.execute(
                "select id from documents where target = ? and body is not null and id > ?"
                " order by id limit ?",
                (self._number(target), after, limit),
            ).fetchall()
        return Page(tuple(id_ for (id_,) in rows), rows[-1][0] if len(rows) == limit else "")

    def find_references(self, target: IndexTarget, tokens: Sequence[str]) -> Iterator[str]:
        """Look tokens up, page by page, so that no read holds the log back."""
        after = 0
        while tokens and after >= 0:
            with self._reading():
                page = page_of_documents(self._conn, self._number(target), tokens, after, _PAGE)
            yield from (id_ for _, id_ in page)
            after = page[-1][0] if len(page) == _PAGE else -1

    def remember_tokens(self, target: IndexTarget, tokens: Sequence[str]) -> None:
        """Keep tokens for a later look-up."""
        with self._transaction():
            remember_due(self._conn, self._number(target), tokens)

    def remembered_tokens(self, target: IndexTarget, limit: int) -> Sequence[str]:
        """Give some of the tokens that are kept."""
        with self._reading():
            return find_due(self._conn, self._number(target), limit)

    def count_tokens(self, target: IndexTarget) -> int:
        """Count the tokens that are kept."""
        with self._reading():
            return count_due(self._conn, self._number(target))

    def forget_tokens(self, target: IndexTarget, tokens: Sequence[str]) -> None:
        """Keep these no longer."""
        with self._transaction():
            forget_due(self._conn, self._number(target), tokens)

    def count(self, target: IndexTarget) -> int:
        """Count the documents."""
        with self._reading():
            return int(
                self._conn.execute(
                    "select count(*) from documents where target = ? and body is not null",
                    (self._number(target),),
                ).fetchone()[0]
            )

    def load_states(self) -> States:
        """Read what is remembered."""
        with self._reading():
            return states_of(dict(self._conn.execute("select name, state from states").fetchall()))

    def save_state(self, state: IndexState) -> None:
        """Remember."""
        key = state_key(state.index, state.generation)
        with self._transaction():
            self._refuse_later(state.index, state.generation, state.term)
            self._conn.execute("insert or replace into states values (?, ?)", (key, state_to_json(state)))

    def _refuse_later(self, index: str, generation: int, term: int) -> None:
        """Raise `IndexTaken` when the state of a generation is of a later start; within a transaction."""
        key = state_key(index, generation)
        found = self._conn.execute(
            "select json_extract(state, '$.term') from states where name = ?", (key,)
        ).fetchone()
        if found is not None and (found[0] or 0) > term:
            raise taken(index)

    def ask(self, index: str, request: Request, generation: int = 0) -> None:
        """Leave a request."""
        self._remember(request_key(index), request_to_text(request, generation))

    def answer(self, index: str) -> None:
        """Forget a request."""
        with self._transaction():
            self._conn.execute("delete from states where name = ?", (request_key(index),))

    def _remember(self, key: str, text: str) -> None:
        with self._transaction():
            self._conn.execute("insert or replace into states values (?, ?)", (key, text))

    def quarantine(self, refusals: Sequence[Refusal]) -> None:
        """Keep refused documents, each with one attempt more than it had."""
        with self._transaction():
            quarantine.keep(self._conn, refusals)

    def release(self, index: str, ids: Sequence[str], version: int) -> int:
        """Forget refused documents."""
        with self._transaction():
            return quarantine.release(self._conn, index, ids, version)

    def quarantined(self, index: str) -> Sequence[Refusal]:
        """List what is in quarantine, by id."""
        with self._reading():
            return quarantine.entries(self._conn, index)

    def search(
        self, index: str, query: str, limit: int, where: Sequence[tuple[str, str]] = ()
    ) -> Sequence[Hit]:
        """Find documents that have all the words, best first."""
        words = match_expression(query)
        if not words and not where:
            return []
        with self._reading():
            found = self._conn.execute("select target from published where name = ?", (index,)).fetchone()
            if found is None:
                return []
            rows = self._conn.execute(*(select_matching(found[0], words) if words else select_all(found[0])))
            hits = (Hit(id_, score, body) for id_, score, body in rows)
            fit = (hit for hit in hits if all(has_value(hit.body.decode(), *each) for each in where))
            return list(islice(fit, limit))

    def close(self) -> None:
        """Close the file, from any thread. A connection that is closed under a statement takes the process
        with it: so not before the statement in hand has ended, and not at all when it hangs."""
        self._is_closed = True
        if self._in_use.acquire(timeout=_CLOSE_S):
            try:
                self._conn.close()
            finally:
                self._in_use.release()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._using(), transaction(self._conn):
            yield
        self._check_in_place()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._check_in_place()
        with self._using():
            yield

    @contextmanager
    def _using(self) -> Iterator[None]:
        with self._in_use, translated(self._path):
            if self._is_closed:
                raise SinkUnavailable(f'"{self._path}" was closed by another thread')
            yield

    def _is_in_place(self) -> bool:
        found = identity_of(self._path)
        return found == self._file and (found is not None or not self._has_file)

    def _check_in_place(self) -> None:
        if not self._is_in_place():
            raise GenerationGone(f'"{self._path}" was deleted, or another file put in its place')

    def _number(self, target: IndexTarget) -> int:
        found = find_generation(self._conn, target)
        if found is None:
            raise GenerationGone(
                f'generation {target.generation} of index "{target.index}" is not in "{self._path}"',
                hint="it was replaced by a newer one, or never made",
            )
        return found
