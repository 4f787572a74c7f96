"""One thing that is wrong, or worth knowing, before anything runs: what, how bad, where, and what to do.

Everybody who looks for mistakes gives these: the readers of the files, the check against the database, the
look at the server. The command line prints them all the same way. The codes are part of what users may rely
on (`check --format json`): a code is never renamed and never changes how bad it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is: an error keeps flusso from running, a warning does not, a note only tells."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Code(StrEnum):
    """Every kind of finding. docs/guides/diagnostics.md has a line for each."""

    # A file as a whole.
    UNREADABLE_FILE = "unreadable-file"
    NOT_UTF8 = "not-utf8"
    EMPTY_FILE = "empty-file"
    INVALID_TOML = "invalid-toml"
    INVALID_YAML = "invalid-yaml"

    # A key or a value of a file.
    DUPLICATE_KEY = "duplicate-key"
    UNKNOWN_KEY = "unknown-key"
    MISPLACED_KEY = "misplaced-key"
    MISSING_KEY = "missing-key"
    CONFLICTING_KEYS = "conflicting-keys"
    UNSUPPORTED = "unsupported"
    NO_EFFECT = "no-effect"
    WRONG_TYPE = "wrong-type"
    INVALID_VALUE = "invalid-value"
    OUT_OF_RANGE = "out-of-range"
    UNKNOWN_WORD = "unknown-word"
    INVALID_NAME = "invalid-name"
    EMPTY_LIST = "empty-list"
    DUPLICATE_ITEM = "duplicate-item"

    # A deployment.
    DUPLICATE_INDEX = "duplicate-index"
    NO_INDEX = "no-index"
    UNKNOWN_SINK = "unknown-sink"
    UNSET_VARIABLE = "unset-variable"
    LITERAL_SECRET = "literal-secret"

    # A schema.
    UNKNOWN_TAG = "unknown-tag"
    DUPLICATE_FIELD = "duplicate-field"
    UNKNOWN_FIELD = "unknown-field"
    KEY_LENGTH = "key-length"
    UNKNOWN_ANALYZER = "unknown-analyzer"

    # A schema against the database.
    MISSING_TABLE = "missing-table"
    UNFOLLOWABLE_TABLE = "unfollowable-table"
    MISSING_COLUMN = "missing-column"
    MISSING_PRIMARY_KEY = "missing-primary-key"
    UNFIT_KEY = "unfit-key"
    UNFIT_TYPE = "unfit-type"
    UNFIT_LINK = "unfit-link"
    UNFIT_FILTER = "unfit-filter"
    UNFIT_STATEMENT = "unfit-statement"
    MUTABLE_FILTER = "mutable-filter"
    UNPROVEN_FILTER = "unproven-filter"
    AMBIGUOUS_KEY = "ambiguous-key"
    NULLABLE_REQUIRED = "nullable-required"
    OTHER_LABELS = "other-labels"
    MISSING_INDEX = "missing-index"
    FAN_OUT = "fan-out"
    BLIND_RELATION = "blind-relation"
    KEPT_BY_REFERENCES = "kept-by-references"
    MANY_REFERENCES = "many-references"
    MANAGED_IDENTITY = "managed-identity"
    MISSING_PRIVILEGE = "missing-privilege"
    ROW_SECURITY = "row-security"

    # The server.
    SOURCE_UNAVAILABLE = "source-unavailable"
    SOURCE_REFUSED = "source-refused"
    OLD_SERVER = "old-server"
    WAL_LEVEL = "wal-level"
    IN_RECOVERY = "in-recovery"
    REPLICATION_ROLE = "replication-role"
    UNFIT_PUBLICATION = "unfit-publication"
    NEW_PARTITIONS = "new-partitions"
    UNNEEDED_TABLE = "unneeded-table"
    NO_FREE_SLOT = "no-free-slot"
    NO_FREE_SENDER = "no-free-sender"
    NO_FAILOVER = "no-failover"
    UNFIT_SLOT = "unfit-slot"
    LOST_SLOT = "lost-slot"
    REPLICATION_REFUSED = "replication-refused"
    UNBOUNDED_WAL = "unbounded-wal"
    SMALL_WAL = "small-wal"
    SENDER_TIMEOUT = "sender-timeout"
    IDLE_SLOT_TIMEOUT = "idle-slot-timeout"
    UNFIT_REPLICA = "unfit-replica"
    HOT_STANDBY_FEEDBACK = "hot-standby-feedback"

    @property
    def severity(self) -> Severity:
        """Say how bad a finding of this kind is."""
        return _SEVERITIES.get(self, Severity.ERROR)


_SEVERITIES = dict.fromkeys(
    (
        *(Code.UNPROVEN_FILTER, Code.AMBIGUOUS_KEY, Code.NULLABLE_REQUIRED, Code.OTHER_LABELS),
        *(Code.MISSING_INDEX, Code.FAN_OUT, Code.BLIND_RELATION, Code.MANY_REFERENCES),
        Code.NEW_PARTITIONS,
        *(Code.NO_FREE_SLOT, Code.NO_FREE_SENDER, Code.NO_EFFECT),
        *(Code.SMALL_WAL, Code.SENDER_TIMEOUT, Code.IDLE_SLOT_TIMEOUT, Code.HOT_STANDBY_FEEDBACK),
    ),
    Severity.WARNING,
) | dict.fromkeys(
    (Code.MANAGED_IDENTITY, Code.KEPT_BY_REFERENCES, Code.UNNEEDED_TABLE, Code.UNBOUNDED_WAL), Severity.NOTE
)
"""Of those that are not errors."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The line of a file that a finding is about, without secrets, and the part to point at, from 0."""

    text: str
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. Lines and columns count from 1; line 0 means the file as a whole, or no file."""

    code: Code
    message: str
    hint: str | None = None
    """What mends it: an edit or a statement."""
    file: str = ""
    line: int = 0
    column: int = 0
    length: int = 0
    path: str = ""
    """The place in the file's own terms, `fields[2].limit`; of a finding in the database that has no line
    yet, the key of its field that is to blame."""
    index: str = ""
    field: str = ""
    """Dotted name in the document."""
    excerpt: Excerpt | None = None

    @property
    def severity(self) -> Severity:
        """Say how bad it is."""
        return self.code.severity

    @property
    def where(self) -> str:
        """Name the place in a few words; empty when there is none."""
        if self.line:
            return f"{self.file}:{self.line}:{self.column}"
        return self.file

    def __str__(self) -> str:
        parts = [
            self.where,
            f'index "{self.index}"' if self.index else "",
            f'field "{self.field}"' if self.field else "",
            self.path if not self.index else "",
            self.message,
            self.hint or "",
        ]
        return ": ".join(part for part in parts if part)
