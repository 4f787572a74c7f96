"""The `opensearch` sink: its settings, and the official client behind the small `Client` that `sink` needs.

Retrying is ours, not the client's: it has to know which items of a bulk request to send again. The client
still chooses among several addresses, and avoids one that failed.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from flusso.errors import ConfigError, SinkRefused, SinkUnavailable
from flusso.schema.model import Json
from flusso.sinks.base import Capabilities, Sink
from flusso.sinks.search.delivery import Limits
from flusso.sinks.search.generations import IndexSettings
from flusso.sinks.search.server import Answer, Server
from flusso.sinks.search.sink import SearchSettings, SearchSink


@dataclass(frozen=True, slots=True)
class OpenSearchSpec:
    """How to reach an OpenSearch cluster and how indexes are made there.

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
    batch_size: int = 1000
    max_bytes: int = 10 * 1024 * 1024
    timeout_s: float = 30.0
    max_retries: int = 8
    pipeline: str | None = None
    number_of_shards: int = 1
    number_of_replicas: int = 1
    refresh_interval: str = "10s"
    text_analysis: str = "builtin"
    auto_subfields: bool = True
    compress: bool = True

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
        """Everything, from anywhere."""
        return Capabilities()

    @property
    def shape(self) -> Mapping[str, Json]:
        """What changes the mapping, or the document on its way in."""
        return {
            "text_analysis": str(self.text_analysis),
            "auto_subfields": self.auto_subfields,
            "pipeline": self.pipeline,
        }

    def open(self) -> Sink:
        """Make a client; the first request connects."""
        settings = SearchSettings(
            prefix=self.prefix,
            limits=Limits(self.batch_size, self.max_bytes),
            index=IndexSettings(self.number_of_shards, self.number_of_replicas, self.refresh_interval),
            pipeline=self.pipeline,
            text_analysis=self.text_analysis,
            auto_subfields=self.auto_subfields,
            preference="_primary",
        )
        return SearchSink(Server(OpenSearchClient(self), self.name, self.max_retries), settings)


class OpenSearchClient:
    """opensearch-py as a `Client`."""

    def __init__(self, spec: OpenSearchSpec) -> None:
        try:
            import opensearchpy
        except ImportError as error:
            raise ConfigError(
                f'sink "{spec.name}" needs the OpenSearch client', hint="pip install 'flusso[opensearch]'"
            ) from error
        # Its log lines repeat what we raise, and at debug level hold whole documents.
        logging.getLogger("opensearch").setLevel(logging.CRITICAL)
        self._sink = spec.name
        self._errors = opensearchpy.exceptions
        self._is_compressed = spec.compress and not all(_is_here(url) for url in spec.urls)
        self._client = self._connected(opensearchpy, spec)

    def _connected(self, opensearchpy: Any, spec: OpenSearchSpec) -> Any:
        class Untouched(opensearchpy.serializer.JSONSerializer):  # type: ignore[misc]
            """Leaves answers as text: a document must come back byte for byte."""

            def loads(self, s: str) -> str:
                return s

        if spec.ca is not None and not Path(spec.ca).exists():  # else seen only as "not reachable", later
            raise ConfigError(f'sink "{spec.name}" has no ca file "{spec.ca}"')
        return opensearchpy.OpenSearch(
            hosts=list(spec.urls),
            headers=_headers(spec),
            serializer=Untouched(),
            timeout=spec.timeout_s,
            max_retries=0,
            retry_on_timeout=True,
            verify_certs=spec.tls_verify,
            ssl_show_warn=False,
            ca_certs=spec.ca,
        )

    def send(self, method: str, path: str, params: Mapping[str, str], body: bytes | None) -> Answer:
        """Send one request and give the answer whatever its status."""
        headers = {"content-type": "application/x-ndjson" if path.endswith("/_bulk") else "application/json"}
        if body is not None and self._is_compressed:
            # The client would compress at the highest level: several times the CPU for a few per cent.
            body = zlib.compress(body, level=1, wbits=31)
            headers["content-encoding"] = "gzip"
        try:
            text = self._client.transport.perform_request(
                method, path, params=dict(params), body=body, headers=headers
            )
            return Answer(200, text or "")
        except self._errors.SSLError as error:
            raise SinkRefused(
                f'sink "{self._sink}" has no certificate that can be trusted',
                hint="set ca, or tls_verify = false",
            ) from error
        except self._errors.ConnectionTimeout as error:
            raise SinkUnavailable(f'sink "{self._sink}" did not answer in time') from error
        except self._errors.ConnectionError as error:
            raise SinkUnavailable(f'sink "{self._sink}" is not reachable') from error
        except self._errors.TransportError as error:
            return _failed(error)
        except self._errors.OpenSearchException as error:
            raise SinkRefused(
                f'sink "{self._sink}" does not answer like OpenSearch', hint="check url"
            ) from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _failed(error: Any) -> Answer:
    return Answer(
        int(error.status_code), json.dumps(error.info) if error.info is not None else str(error.error)
    )


def _headers(spec: OpenSearchSpec) -> dict[str, str]:
    headers = {"accept-encoding": "gzip"} if spec.compress else {}
    if spec.api_key:
        headers["authorization"] = f"ApiKey {spec.api_key}"
    elif spec.username:
        token = base64.b64encode(f"{spec.username}:{spec.password or ''}".encode()).decode()
        headers["authorization"] = f"Basic {token}"
    return headers


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
    """Whether a url is this machine's own: compressing costs CPU on both sides and saves nothing there."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
