"""The bulk format: writes into request bodies, answers into outcomes. Pure, and quick for the common case.

A document's JSON text goes into the body as it came. An answer without errors is not even parsed. What a
refusal keeps of the server's reason is its type and the field: the rest may quote the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted

from flusso.document import Write
from flusso.errors import GenerationGone, SinkRefused, SinkUnavailable

FILTER_PATH = "errors,items.*.status,items.*.error.type,items.*.error.reason"
"""Every item keeps its status, so that items and writes can be matched by place."""

_NO_ERRORS = '{"errors":false'
_CURRENT_VERSION = re.compile(r"current version \[(\d+)\]")
_FIELD = re.compile(
    r"(?:\[\d+:\d+\] )?(?:"
    r"(?:failed to parse field|failed to parse date field|object mapping for|mapper for) \[([^\]]+)\]"
    r"|mapping set to strict, dynamic introduction of \[([^\]]+)\]"
    r'|Document contains at least one immense term in field="([^"]+)")'
)
UNVERSIONED = 0
"""The version of a write that none is older or newer than: the last one counts."""
BLOCKED = ("cluster_block_exception", "index_closed_exception")
"""The index, or all, is read-only or closed for now: the disk is nearly full, or someone wants it so."""
ABSENT = ("index_not_found_exception", "invalid_index_name_exception")
"""The latter when an alias for writers is not there: no index can have its name."""
_END = "}}\n"
_NO_PIPELINE = "pipeline with id ["
"""How the reason begins that a server gives for every document when there is no such ingest pipeline."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Writes that go in one request, and its body."""

    writes: Sequence[Write]
    body: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch."""

    written: int = 0
    removed: int = 0
    superseded: int = 0
    newest_conflict: int = 0
    refused: tuple[tuple[Write, str], ...] = ()
    busy: tuple[Write, ...] = ()
    """Not taken for want of room: to be sent again, later and in smaller numbers."""
    failed: tuple[tuple[Write, str], ...] = ()
    """Met an error in the server: to be sent again; where others are taken the document may be at fault."""
    why: str = ""
    """What the server said of the last of either."""
    taken: Write | None = None
    """One of the documents that were written."""


def batches(writes: Sequence[Write], *, max_count: int, max_bytes: int) -> Iterator[Batch]:
    """Cut writes into request bodies; a document larger than the limit travels alone."""
    pieces: list[bytes] = []
    start = size = 0
    last, tail = UNVERSIONED, _END
    for at, (id_, version, body, _) in enumerate(writes):
        if version != last:  # nearly always all have the same
            last, tail = version, _tail(version)
        if body is None:
            lines: tuple[bytes, ...] = (f'{{"delete":{{"_id":{quoted(id_)}{tail}'.encode(),)
            added = len(lines[0])
        else:
            # A raw line break in JSON stands between tokens, never in a string: a space means the same.
            line = body if b"\n" not in body else body.replace(b"\n", b" ")
            lines = (f'{{"index":{{"_id":{quoted(id_)}{tail}'.encode(), line, b"\n")
            added = len(lines[0]) + len(line) + 1
        if at > start and (size + added > max_bytes or at - start >= max_count):
            yield Batch(writes[start:at], b"".join(pieces))
            pieces, start, size = [], at, 0
        pieces += lines
        size += added
    if pieces:
        yield Batch(writes[start:], b"".join(pieces))


def _tail(version: int) -> str:
    """End the line that says what to do with a document."""
    return _END if version == UNVERSIONED else f',"version":{version},"version_type":"external_gte"{_END}'


def outcome_of(text: str, writes: Sequence[Write]) -> Outcome:
    """Read the answer to a batch."""
    if text.startswith(_NO_ERRORS):
        removed = sum(write.body is None for write in writes)
        taken = next((write for write in writes if write.body is not None), None)
        return Outcome(written=len(writes) - removed, removed=removed, taken=taken)
    try:
        items = [next(iter(item.values())) for item in json.loads(text)["items"]]
        statuses = [(int(item["status"]), item.get("error")) for item in items]
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise SinkUnavailable("the answer to a bulk request is not one") from error
    if len(statuses) != len(writes):
        raise SinkUnavailable("the answer to a bulk request does not cover all its items")
    return _sorted_out(writes, statuses)


def _sorted_out(writes: Sequence[Write], statuses: Sequence[tuple[int, object]]) -> Outcome:
    taken: list[Write] = []
    conflicts: list[int] = []
    refused: list[tuple[Write, str]] = []
    busy: list[Write] = []
    failed: list[tuple[Write, str]] = []
    why = ""
    for write, (status, error) in zip(writes, statuses, strict=True):
        if error is None:  # 404 among them: a removal of what is not there leaves its version too
            taken.append(write)
            continue
        kind, reason = _error(error)
        if status == 409:
            current = _CURRENT_VERSION.search(reason)
            conflicts.append(int(current.group(1)) if current else 0)
        elif status == 500 and kind not in BLOCKED:
            failed.append((write, kind))
            why = kind
        elif status == 429 or status >= 500 or kind in BLOCKED:
            busy.append(write)
            # What it says of a block names the index and the reason, and nothing of the document.
            why = reason if kind in BLOCKED else kind
        else:
            refused.append((write, _refusal(status, kind, reason)))
    written = [write for write in taken if write.body is not None]
    return Outcome(
        written=len(written),
        removed=len(taken) - len(written),
        superseded=len(conflicts),
        newest_conflict=max(conflicts, default=0),
        refused=tuple(refused),
        busy=tuple(busy),
        failed=tuple(failed),
        why=why,
        taken=next(iter(written), None),
    )


def _refusal(status: int, kind: str, reason: str) -> str:
    """Say why a document is refused; raises where it is not the document's fault."""
    if kind in ABSENT:
        raise gone("the index is gone")
    if status in (401, 403):
        raise SinkRefused(f"writing is not allowed ({kind})", hint="check what the user may do")
    if reason.startswith(_NO_PIPELINE):
        raise no_pipeline("the ingest pipeline is not there")
    return safe_reason(kind, reason)


def gone(what: str) -> GenerationGone:
    """Say that the index of a generation is not there."""
    return GenerationGone(what, hint="its generation was replaced or deleted")


def no_pipeline(what: str) -> SinkRefused:
    """Say that the ingest pipeline is not there."""
    return SinkRefused(what, hint="make the pipeline in the server, or take it out of the sink")


def _error(error: object) -> tuple[str, str]:
    if isinstance(error, dict):
        return str(error.get("type", "unknown")), str(error.get("reason", ""))
    return "unknown", ""


def safe_reason(kind: str, reason: str) -> str:
    """Keep the type of a refusal and the field it is about, and nothing of the document."""
    found = _FIELD.match(reason)
    if found is None:
        return kind
    return f"{kind} (field {next(name for name in found.groups() if name)})"
