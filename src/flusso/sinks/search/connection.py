"""How a search server is reached and how indexes are made there: the settings that both kinds of it share.

A kind adds a module with its spec and a `Client` around its official library; all else is the same.
Retrying is ours, not the library's: it has to know which items of a bulk request to send again. The library
still chooses among several addresses, and avoids one that failed.
"""

from __future__ import annotations

import base64
import ipaddress
import ssl
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit, urlunsplit

from flusso.errors import ConfigError, SinkRefused, SinkUnavailable
from flusso.schema.model import Json
from flusso.sinks.base import Capabilities, Sink
from flusso.sinks.search.generations import IndexSettings
from flusso.sinks.search.pace import Limits, Pace
from flusso.sinks.search.server import Client, Server
from flusso.sinks.search.sink import SearchSettings, SearchSink


@dataclass(frozen=True, slots=True)
class SearchSpec(ABC):
    """One cluster, and how indexes are made there.

    A user and password inside a url are moved to `username` and `password`, where the repr hides them.
    """

    name: str
    urls: tuple[str, ...]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    ca: str | None = None
    tls_verify: bool = True
    prefix: str = ""
    batch_size: int = 2000
    max_bytes: int = 10 * 1024 * 1024
    timeout_s: float = 30.0
    max_retries: int = 8
    pipeline: str | None = None
    number_of_shards: int = 1
    number_of_replicas: int = 1
    refresh_interval: str = "10s"
    refresh_pause_ms: int = 100
    text_analysis: str = "builtin"
    auto_subfields: bool = True
    compress: bool = True
    gc_deletes_s: float = 3600.0
    """How long a removed document's version is remembered; a server's own default is a minute."""
    library: ClassVar[str]
    """The module of the official client, which is imported when it is needed first: that takes its time."""

    def __post_init__(self) -> None:
        if not self.urls:
            raise ConfigError(f'sink "{self.name}" has no url')
        parsed = [_parsed(self.name, url) for url in self.urls]
        for _, username, password in parsed:
            if username and not self.username:
                object.__setattr__(self, "username", username)
                object.__setattr__(self, "password", password)
        object.__setattr__(self, "urls", tuple(url for url, _, _ in parsed))

    @property
    def capabilities(self) -> Capabilities:
        """Everything, from anywhere; an ingest pipeline makes other documents of those it is given."""
        pause_s = None if self.refresh_pause_ms < 0 else self.refresh_pause_ms / 1000
        return Capabilities(
            keeps_bytes=self.pipeline is None, refresh_pause_s=pause_s, forgets_removals_s=self.gc_deletes_s
        )

    @property
    def shape(self) -> Mapping[str, Json]:
        """What changes the mapping, or the document on its way in."""
        return {
            "text_analysis": str(self.text_analysis),
            "auto_subfields": self.auto_subfields,
            "pipeline": self.pipeline,
        }

    @property
    def preference(self) -> str:
        """Which copies of a shard look-ups go to; empty where the server does not let one choose."""
        return ""

    @abstractmethod
    def client(self) -> Client:
        """Make the client of this kind; the first request connects."""

    def open(self) -> Sink:
        """Make a client; the first request connects."""
        if self.ca is not None and not Path(self.ca).exists():  # else seen only as "not reachable", later
            raise ConfigError(f'sink "{self.name}" has no ca file "{self.ca}"')
        settings = SearchSettings(
            prefix=self.prefix,
            index=IndexSettings(
                self.number_of_shards, self.number_of_replicas, self.refresh_interval, self.gc_deletes_s
            ),
            pipeline=self.pipeline,
            text_analysis=self.text_analysis,
            auto_subfields=self.auto_subfields,
            preference=self.preference,
        )
        pace = _paces.setdefault(self, Pace(Limits(self.batch_size, self.max_bytes)))
        return SearchSink(Server(self.client(), self.name, self.max_retries), settings, pace)


_paces: dict[SearchSpec, Pace] = {}
"""One for each sink in this process."""


def base_headers(spec: SearchSpec) -> dict[str, str]:
    """Give the headers of every request: who we are, and whether an answer may come compressed."""
    headers = {"accept-encoding": "gzip"} if compresses(spec) else {}
    if spec.api_key:
        headers["authorization"] = f"ApiKey {spec.api_key}"
    elif spec.username:
        token = base64.b64encode(f"{spec.username}:{spec.password or ''}".encode()).decode()
        headers["authorization"] = f"Basic {token}"
    return headers


def compresses(spec: SearchSpec) -> bool:
    """Whether requests and answers are compressed: not on this machine, where it costs CPU twice and saves
    nothing."""
    return spec.compress and not all(_is_here(url) for url in spec.urls)


def compressed(body: bytes) -> bytes:
    """Compress a request: the libraries would do it at a high level, at several times the CPU for little."""
    return zlib.compress(body, level=1, wbits=31)


def tls_failure(sink: str, error: Exception) -> SinkRefused | SinkUnavailable:
    """Say what a library's error over TLS means: only a certificate that cannot be trusted is final.

    All else may be a server that is being restarted, or a proxy in front of one, and goes by itself.
    """
    causes = list(_causes(error))
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return SinkRefused(
            f'sink "{sink}" has no certificate that can be trusted', hint="set ca, or tls_verify = false"
        )
    # The reason is a word of the library, such as UNEXPECTED_EOF_WHILE_READING.
    words = (cause.reason for cause in causes if isinstance(cause, ssl.SSLError))
    why = next((word for word in words if isinstance(word, str)), "")
    return SinkUnavailable(f'sink "{sink}" is not reachable over TLS{f" ({why})" if why else ""}')


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Go through an error and all that it came of, wherever a library keeps that."""
    found = [error]
    for each in found:  # grows meanwhile
        yield each
        for cause in (*each.args, each.__cause__, each.__context__):
            if isinstance(cause, BaseException) and not any(cause is known for known in found):
                found.append(cause)


def _parsed(sink: str, url: str) -> tuple[str, str | None, str | None]:
    """Split credentials off a url."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        raise ConfigError(f'sink "{sink}" has a url that cannot be read') from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f'sink "{sink}" has a url that is not http:// or https:// with a host')
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port is None else f"{host}:{port}"
    bare = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
    username = unquote(parts.username) if parts.username else None
    return bare, username, unquote(parts.password) if parts.password else None


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
