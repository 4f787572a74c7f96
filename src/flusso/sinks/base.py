"""The contract of a sink. Whoever writes a new one needs this page and `tests/contract/`.

A `SinkSpec` is a small frozen, picklable description with its secrets resolved; it crosses to executors
and is opened where it is used. A `Sink` is the open thing: connections, files. It is used by one thread
at a time, but for `close`; many processes have the same sink open at once.

Versions decide between writers: a write takes effect when its version is the same as or higher than
what the sink holds for that id, *removals included*; an older one is counted as superseded, which is
not an error. So a replay, a twin task or a seed beside the stream never puts old content over new.

A document comes back as the bytes that were written, except that a sink may write a raw line break between
tokens of its JSON as a space.

Errors: a sink raises `SinkUnavailable` when trying again may help (and has already retried what is
cheap to retry, and told in `backed_off_s` how long it waited), `SinkRefused` when the whole request is wrong,
of which `GenerationGone` says that what is read, written or published is there no more, and reports a
document that it will never take as a `Refusal` in the result. Nothing else leaves it. The text of an error
and of a reason never shows a value of a document.

A run uses it like this. The driver opens it, reads the states, and calls `ensure` for each generation that is
written. From then on executors `write`, each with a sink of its own, to any generation, in any order and
several at once. After each batch that all sinks have taken, the driver saves the states, and only then
confirms the position: so what `write` and `save_state` have returned from must survive a power cut. It keeps
refused documents with `quarantine`; whoever writes a better version of one calls `release`. When a generation
is whole the driver lets readers see it with `publish`, and drops older ones. A process may end at any point
of this: what is half done is done again.

A sink that cannot do a part of it says so in `Capabilities`, and need not make more of those methods than a
result that says nothing: `stdout.py` is the smallest, `sqlite/` has everything in one file, `search/` speaks
to a server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from flusso.debt import Debt
from flusso.document import Refusal, Write, WriteResult
from flusso.schema.model import IndexSchema, Json
from flusso.seeding import Seeding


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a kind of sink can do."""

    keeps_state: bool = True
    """Remembers what was seeded and what was written. Without it every start seeds anew."""
    is_driver_side: bool = False
    """Lives in the driver process only: executors hand their writes back instead of writing."""
    is_single_host: bool = False
    """Is a file of one machine: refuse a Spark master whose executors may be elsewhere."""
    can_search: bool = True
    forgets_removals_s: float | None = None
    """How long the version of a removed document is remembered at least; None: for ever."""
    keeps_references: bool = True
    """Finds documents by the tokens that they were written with."""
    keeps_bytes: bool = True
    """Whether a document comes back as it was written; not where something changes it on its way in."""
    refresh_pause_s: float | None = 0.0
    """How long to leave between two refreshes of a generation: 0 where they cost nothing; None: ask for none,
    it becomes searchable by itself."""


@dataclass(frozen=True, slots=True)
class IndexTarget:
    """One generation of an index."""

    index: str
    digest: str
    generation: int
    text_fields: tuple[str, ...] = ()
    """Names of the fields that full-text search covers, for sinks without a mapping."""
    keeps_references: bool = False
    """Whether documents are found by the tokens that they are written with; else those are passed over."""
    keeps_removals: bool = False
    """While it is filled: removals leave a mark with their version that nothing forgets, until `purge`."""
    term: int = 0
    """Which start of flusso writes it. A sink that may forget the version of a removal refuses the writes of
    earlier ones; `ensure` is where a later one makes itself known."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """What the sink remembers of one generation. Detects, never resumes: the slot is the position."""

    index: str
    digest: str
    generation: int
    is_seeded: bool = False
    slot: str = ""
    system_identifier: str = ""
    timeline: int = 0
    """Of the server that it was last written from; 0 when that is not known."""
    recovered_at: str = ""
    """When that server had last recovered from a crash, as it said; empty when that is not known."""
    witness: int = 0
    """The WAL position written just before the slot was last confirmed there."""
    highest_version: int = 0
    """The highest version handed out to any task."""
    waiting_for: str = ""
    """What keeps whoever writes it from going on, as the source that is away; empty when nothing does."""
    waiting_since: float = 0.0
    """Since when, in Unix time."""
    publication: str = ""
    """The catalog rows by which its tables were published when that was last known to be whole."""
    catalog: str = ""
    """What its tables looked like: a difference may have changed documents without a change in the WAL."""
    debts: tuple[Debt, ...] = ()
    """What must still be built anew: while there is any, the index is not exact."""
    serves: bool = False
    """Whether readers see this generation. Of a state that does not say: whether it is seeded."""
    published: int = 0
    """The number of the move by which readers came to it. Of several that serve, as after a crash half-way,
    the highest counts; one that does not say came before all others."""
    references: tuple[str, ...] = ()
    """The places of which each of its documents has tokens."""
    is_kept: bool = False
    """Whether readers saw it once and it is still written, so that they can be led back to it."""
    stale: str = ""
    """Why it is written no more although readers see it; empty while it is."""
    schema: str = ""
    """What its documents are made by (`schema.stored`): readers may see it longer than the file is there."""
    ready_at: int = 0
    """Once seeded: the WAL position from which on it lacks nothing that readers may have seen elsewhere."""
    term: int = 0
    """Which start of flusso wrote it last: a later one has a higher number."""
    seeding: Seeding = field(default=Seeding())
    """How far its seed has come."""
    uuids: tuple[str, ...] = ()
    """Those of what it was written to, as the sink told them; none when that is not known."""
    is_all_due: bool = False
    """Whether more rows left documents beside a seed or a debt than are remembered: all that it holds must be
    built once more before it counts as seeded, or the debt as paid."""
    beat: float = 0.0
    """Changes every few seconds while someone writes it; zero when whoever did has ended in order."""

    @property
    def move(self) -> tuple[int, int]:
        """Orders generations by when readers came to them last; where moves had no numbers, by their own."""
        return self.published, self.generation

    @property
    def target(self) -> IndexTarget:
        """The generation itself, for whoever reads it or writes to it beside the stream."""
        references = bool(self.references)
        return IndexTarget(
            self.index, self.digest, self.generation, keeps_references=references, term=self.term
        )


class Request(StrEnum):
    """What a command asks of whoever writes an index."""

    REINDEX = "reindex"
    """Fill a new generation and let readers move to it."""
    ROLLBACK = "rollback"
    """Lead readers back to the generation that they saw before."""


@dataclass(frozen=True, slots=True)
class States:
    """Everything that a sink remembers: a state for each generation of each index, and what was asked."""

    all: tuple[IndexState, ...] = ()
    asked: Mapping[str, Request] = field(default_factory=dict)
    """By index what a command has asked for and nobody has done yet."""
    back_to: Mapping[str, int] = field(default_factory=dict)
    """By index the generation that a rollback leads to."""

    def of(self, index: str) -> tuple[IndexState, ...]:
        """List the generations of an index, oldest first."""
        found = (state for state in self.all if state.index == index)
        return tuple(sorted(found, key=lambda state: state.generation))

    def serving(self, index: str) -> IndexState | None:
        """Give the generation that readers see."""
        return self.serving_of(self.of(index))

    def newest(self, index: str) -> IndexState | None:
        """Give the generation that was begun last, whether readers see it or not yet."""
        return next(reversed(self.of(index)), None)

    def shown(self, index: str) -> IndexState | None:
        """Give the generation that readers see, or while there is none the one that is being filled."""
        return self.serving(index) or self.newest(index)

    @staticmethod
    def serving_of(states: Sequence[IndexState]) -> IndexState | None:
        """Give the generation that readers see, of those of one index."""
        serving = [state for state in states if state.serves]
        return max(serving, key=lambda state: state.move, default=None)


@dataclass(frozen=True, slots=True)
class Held:
    """A generation as the sink holds it."""

    index: str
    digest: str
    """As much of it as the sink knows."""
    generation: int
    bytes: int
    is_read: bool
    """Whether readers see it."""

    @property
    def target(self) -> IndexTarget:
        """The generation itself."""
        return IndexTarget(self.index, self.digest, self.generation)


@dataclass(frozen=True, slots=True)
class Stored:
    """A document as the sink holds it."""

    version: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the ids that a sink holds."""

    ids: tuple[str, ...]
    after: str
    """Where the next page begins; empty when there is none."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result."""

    id: str
    score: float
    body: bytes


class Sink(Protocol):
    """An open sink. See the module for the rules that hold for every method."""

    def ensure(self, target: IndexTarget, schema: IndexSchema) -> None:
        """Make the generation exist, empty if it is new. Idempotent. Driver, before any write.

        Raises `SinkRefused` when readers' name for the index belongs to something that is not ours.
        """

    def write(
        self, target: IndexTarget, writes: Sequence[Write], *, refresh: bool, until: float | None = None
    ) -> WriteResult:
        """Apply writes; on return all that were taken are durable. Executors, in parallel.

        With `refresh` the writes can be searched when this returns. No two writes have the same id. A removal
        of what is not there counts as removed, and its version is kept like any other. Raises
        `GenerationGone` when the generation is gone, and never makes it anew. After `until`, by
        `time.monotonic`, nothing is sent any more but `WriteExpired` raised: a sink that forgets the versions
        of removals could no longer tell such a write from a newer one.
        """

    def refresh(self, target: IndexTarget) -> None:
        """Make everything written so far searchable. Driver."""

    def uuids(self, target: IndexTarget) -> tuple[str, ...] | None:
        """Tell the generation from any other of its name; None when it is gone, or a part of it. Driver.

        One for its documents, then one for what is kept beside them. Whatever somebody made anew in their
        place, or put back from a backup, has others. Empty where the states lie in the same thing as the
        documents: both go back together, and the witness shows it.
        """

    def is_read(self, target: IndexTarget) -> bool:
        """Whether readers of the index see this generation, and no other. Driver."""

    def purge(self, target: IndexTarget) -> None:
        """Take out the marks that removals have left. Driver, before readers see the generation; idempotent.

        Marks are never read, counted, listed or found. A sink that never forgets a version has none.
        """

    def publish(self, target: IndexTarget) -> None:
        """Let readers of the index see this generation instead of the one they saw, atomically.

        Driver, between two batches, once the generation is whole; idempotent. All it holds can be searched
        when this returns. No generation goes by this. Raises `IndexTaken`, and moves nobody, when a later
        start has made itself known; that is looked at in the same step. Raises `SinkRefused`, and moves
        nobody, when readers' name for the index belongs by now to something that is not ours.
        """

    def claim(self, target: IndexTarget) -> None:
        """Take the right to write a generation from earlier starts, though nothing is written to it. Driver.

        Idempotent. What is gone of it is passed over. Raises `IndexTaken` when a later start has taken it.
        """

    def held(self) -> Sequence[Held]:
        """List the generations that are there, known by a state or not, and only those that flusso made."""

    def drop(self, target: IndexTarget) -> None:
        """Remove a generation that readers do not see, with what is remembered of it. Driver; idempotent.

        The state goes last: what was dropped half-way is known and can be dropped again. Raises
        `SinkRefused` when readers see it.
        """

    def read(self, target: IndexTarget, ids: Sequence[str]) -> Mapping[str, Stored]:
        """Fetch documents by id, without waiting for a refresh. Absent ones are left out."""

    def mended(self, target: IndexTarget, body: bytes) -> bytes | None:
        """Give what the sink keeps in place of a document that it cannot take as it is; None when it can."""

    def ids(self, target: IndexTarget) -> Iterator[str]:
        """Go through the ids of all documents of the generation that writes have made durable."""

    def page(self, target: IndexTarget, after: str, limit: int) -> Page:
        """Give up to about so many ids, after a place that an earlier page named, or from the first.

        All pages together have every document that was there when the first was asked for, except what was
        removed since; what was written since may be among them. A place stays good over a restart. Driver.
        """

    def find_references(self, target: IndexTarget, tokens: Sequence[str]) -> Iterator[str]:
        """Give the ids of all documents whose last write had any of the tokens.

        Everything written before the call counts, refreshed or not. All of them, or `SinkUnavailable`; some
        may come that are removed by now, or twice, and one that is written while they are gone through may
        be left out. However slowly that is: documents may be written between two ids. A document and its
        tokens need not change at one moment, but tokens are never newer than the document. Executors. Only
        for a target that keeps references.
        """

    def remember_tokens(self, target: IndexTarget, tokens: Sequence[str]) -> None:
        """Keep tokens for a later look-up, durably before returning; each once. Executors."""

    def remembered_tokens(self, target: IndexTarget, limit: int) -> Sequence[str]:
        """Give up to about so many of the tokens that are kept; none when there are none. Driver."""

    def count_tokens(self, target: IndexTarget) -> int:
        """Count the tokens that are kept. Driver."""

    def forget_tokens(self, target: IndexTarget, tokens: Sequence[str]) -> None:
        """Keep these no longer: they were looked up. Driver."""

    def count(self, target: IndexTarget) -> int:
        """Count the documents that a search can see."""

    def load_states(self) -> States:
        """Read what is remembered of every generation. Empty on a new sink."""

    def save_state(self, state: IndexState) -> None:
        """Remember one generation, durably before returning. Driver only, one writer at a time.

        Raises `IndexTaken` when a state of a higher term is there: a process that was thought dead must not
        put back what it knew.
        """

    def ask(self, index: str, request: Request, generation: int = 0) -> None:
        """Leave a request for whoever writes the index, in place of an earlier one. Any command.

        A rollback names the generation that it leads to, so that it is done once however often it is tried.
        """

    def answer(self, index: str) -> None:
        """Forget a request: what it asked for is done, or remembered elsewhere. Driver; idempotent."""

    def quarantine(self, refusals: Sequence[Refusal]) -> None:
        """Keep refused documents durably, one entry for each index and id. Driver.

        An entry has the latest reason and time, and how often the document was refused in all.
        """

    def release(self, index: str, ids: Sequence[str], version: int) -> int:
        """Forget what is in quarantine of these documents, unless it was refused at a newer version.

        Give how many there were. Called from anywhere, when a write of that version was taken.
        """

    def quarantined(self, index: str) -> Sequence[Refusal]:
        """List what is in quarantine for an index."""

    def search(
        self, index: str, query: str, limit: int, where: Sequence[tuple[str, str]] = ()
    ) -> Sequence[Hit]:
        """Full-text search over the published generation, best first; nothing when none is published.

        Any text is a valid query: it asks for all its words, whatever their case and, where the server has
        the module for it, their accents. `where` has paths of fields, `orders.status`, each with a value that
        the document must have there, in an array or a related row too. A query without words finds nothing,
        with a `where` all that fulfils it.
        """

    def close(self) -> None:
        """Let go of connections and files. Idempotent.

        The one method that another thread may call while one is under way, as when a process is to end: the
        other may then raise `SinkUnavailable`, and nothing that it had not returned from counts as done.
        """


class SinkSpec(Protocol):
    """How to open a sink. Frozen, picklable, hashable; its repr shows no secret."""

    @property
    def name(self) -> str:
        """The name under `[sinks.NAME]`."""

    @property
    def capabilities(self) -> Capabilities:
        """What this kind of sink can do."""

    @property
    def shape(self) -> Mapping[str, Json]:
        """The settings that shape the mapping, and so belong in the digest."""

    def open(self) -> Sink:
        """Open it. Raises `SinkUnavailable` or `SinkRefused`."""
