"""What a name in flusso.toml may look like. Each function says what is wrong with one, or None."""

from __future__ import annotations

import re

MAX_PREFIX_BYTES = 50
MAX_INDEX_BYTES = 100
"""Prefix, name, digest and generation together stay below the 255 bytes that search servers allow."""

MAX_NAME_BYTES = 63
"""What Postgres keeps of a name."""
SLOT_PATTERN = "^[a-z0-9_]{1,63}$"
SINK_PATTERN = "^[A-Za-z0-9_-]{1,63}$"
INDEX_PATTERN = r'^[^A-Z\\/*?"<>| ,#:_.+-][^A-Z\\/*?"<>| ,#:]*$'
"""What an editor can tell of an index name or a prefix; `_illegal` below has the whole rule."""

_SLOT = re.compile(SLOT_PATTERN)
_SINK = re.compile(SINK_PATTERN)
_FORBIDDEN = frozenset('\\/*?"<>| ,#:')
_STATE = "flusso_meta"


def prefix_flaw(prefix: str) -> str | None:
    """Check what is put before every index name."""
    if not prefix:
        return None
    if len(prefix.encode()) > MAX_PREFIX_BYTES:
        return f"a prefix has at most {MAX_PREFIX_BYTES} bytes"
    return _illegal(prefix, "a prefix")


def index_flaw(name: str) -> str | None:
    """Check the name of an index."""
    if len(name.encode()) > MAX_INDEX_BYTES:
        return f"an index name has at most {MAX_INDEX_BYTES} bytes"
    if name == _STATE:
        return f'"{_STATE}" is where flusso keeps its state'
    return _illegal(name, "an index name")


def slot_flaw(name: str) -> str | None:
    """Check the name of a replication slot."""
    if _SLOT.fullmatch(name):
        return None
    return "a slot name has lower-case letters, digits and _ only, at most 63"


def publication_flaw(name: str) -> str | None:
    """Check the name of a publication."""
    if name and "\x00" not in name and len(name.encode(errors="replace")) <= 63:
        return None
    return "a publication name has 1 to 63 bytes"


def sink_flaw(name: str) -> str | None:
    """Check the name of a sink."""
    return None if _SINK.fullmatch(name) else "a sink name has letters, digits, _ and - only, at most 63"


def _illegal(name: str, what: str) -> str | None:
    if name != name.lower():
        return f"{what} is lower case"
    if not name[0].isalnum():
        return f"{what} begins with a letter or a digit"
    found = sorted(_FORBIDDEN.intersection(name)) + [char for char in name if not char.isprintable()]
    if found:
        return f"{what} cannot contain {found[0]!r}"
    return None
