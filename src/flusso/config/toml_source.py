"""The text of flusso.toml, fit to be shown: every value is hidden unless its key is known to be harmless.

Used by `toml_nodes` for the excerpts of problems. A file that can be read tells where its values are. One
that cannot is judged line by line, and a line that is not plainly harmless shows no more than its key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from flusso.diagnostic import Excerpt
from flusso.schema.excerpt import Span, credentials_in, cut_line
from flusso.schema.node import Place

_HARMLESS = frozenset(
    {
        *("prefix", "on_error", "type", "slot", "publication", "manage_publication", "replica_identity"),
        *("max_references", "keep_generations", "verify_before_switch"),
        *("on_slot_lost", "failover", "max_connections", "give_up_after_secs", "master", "max_changes"),
        *("max_bytes", "delay_ms", "chunk", "seed_range_mb", "seed_parallelism", "name", "schema", "enabled"),
        *("sinks", "path", "ca", "tls_verify", "batch_size", "timeout_secs", "max_retries", "pipeline"),
        *("compress", "env"),
        *("number_of_shards", "number_of_replicas", "refresh_interval", "text_analysis", "auto_subfields"),
        *("public_address", "private_address", "capacity", "max_delay_ms", "backfill", "ssl_mode", "pretty"),
        *("ssl_root_cert", "ssl_cert", "ssl_key", "ssl_sni_hostname", "manage_replica_identity"),
    }
)
_SECRETS = ("connection_url", "read_url", "url", "username", "password", "api_key", "conf")
_KEY = re.compile(rf"\s*({'|'.join(sorted(_HARMLESS))})\s*=\s*")
_SECRET_KEY = re.compile(rf"\s*({'|'.join(_SECRETS)})\s*=\s*")
_HEADER = re.compile(r"\s*\[{1,2}[A-Za-z0-9_.\s-]*\]{0,2}\s*")


@dataclass(frozen=True, slots=True)
class TomlSource:
    """A deployment file; `hidden` are the spans not to show, None when nobody could tell."""

    text: str = field(repr=False)
    hidden: tuple[Span, ...] | None = None

    def excerpt(self, place: Place) -> Excerpt | None:
        """Give the line of a place."""
        lines = self.text.split("\n")
        if not 0 < place.line <= len(lines):
            return None
        line = lines[place.line - 1]
        if self.hidden is None:
            return cut_line(line, place, _doubtful(line))
        start = sum(len(before) + 1 for before in lines[: place.line - 1])
        spans = [(max(low - start, 0), min(high - start, len(line))) for low, high in self.hidden]
        return cut_line(line, place, [*spans, *credentials_in(line)])


def is_harmless(keys: Sequence[str | int]) -> bool:
    """Say whether the value of a key may be shown."""
    names = [key for key in keys if isinstance(key, str)]
    return names[-1] in _HARMLESS and "conf" not in names


def _doubtful(line: str) -> list[Span]:
    """Find what to hide of a line in a file that is not TOML: it may be anything, a piece of a text too."""
    key = _KEY.match(line)
    if _HEADER.fullmatch(line) or (key and "=" not in line[key.end() :] and "#" not in line):
        return credentials_in(line)
    named = key or _SECRET_KEY.match(line)
    return [(named.end() if named else len(line) - len(line.lstrip()), len(line))]
