"""The `elasticsearch` sink: the official client behind the small `Client` that the sink needs.

Requests go through the client's transport, which hands on statuses and leaves our bodies as they are; its
methods by name would check and rebuild both.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlencode

from flusso.errors import ConfigError, SinkRefused, SinkUnavailable
from flusso.sinks.search.connection import SearchSpec, base_headers, compressed, compresses, tls_failure
from flusso.sinks.search.server import Answer, Client

_PRODUCT = "Elasticsearch"
"""What a server of version 8 or newer calls itself in every answer."""


@dataclass(frozen=True, slots=True)
class ElasticsearchSpec(SearchSpec):
    """How to reach an Elasticsearch cluster and how indexes are made there."""

    library: ClassVar[str] = "elasticsearch"

    def client(self) -> Client:
        """Make a client; the first request connects."""
        return ElasticsearchClient(self)


class ElasticsearchClient:
    """elasticsearch-py as a `Client`."""

    def __init__(self, spec: SearchSpec) -> None:
        try:
            import elastic_transport
            import elasticsearch
        except ImportError as error:
            raise ConfigError(
                f'sink "{spec.name}" needs the Elasticsearch client',
                hint="pip install 'flusso[elasticsearch]'",
            ) from error
        # Its log lines repeat what we raise, and at debug level hold whole documents.
        logging.getLogger("elastic_transport").setLevel(logging.CRITICAL)
        self._sink = spec.name
        self._errors = elastic_transport
        self._is_compressed = compresses(spec)
        self._headers = base_headers(spec)
        self._timeout_s = spec.timeout_s
        self._client = _connected(elasticsearch, elastic_transport, spec)

    def send(self, method: str, path: str, params: Mapping[str, str], body: bytes | None) -> Answer:
        """Send one request and give the answer whatever its status."""
        headers = self._headers | {"accept": "application/json"}
        if body is not None:
            headers["content-type"] = (
                "application/x-ndjson" if path.endswith("/_bulk") else "application/json"
            )
            if self._is_compressed:
                body = compressed(body)
                headers["content-encoding"] = "gzip"
        target = f"{path}?{urlencode(params)}" if params else path
        try:
            # The client's own settings of these count for its methods alone.
            found = self._client.transport.perform_request(
                method,
                target,
                body=body,
                headers=headers,
                request_timeout=self._timeout_s,
                max_retries=0,
                retry_on_status=(),
            )
        except self._errors.TlsError as error:
            raise tls_failure(self._sink, error) from error
        except self._errors.ConnectionTimeout as error:
            raise SinkUnavailable(f'sink "{self._sink}" did not answer in time') from error
        except self._errors.TransportError as error:
            raise SinkUnavailable(f'sink "{self._sink}" is not reachable') from error
        if found.meta.status < 300 and found.meta.headers.get("x-elastic-product") != _PRODUCT:
            raise SinkRefused(f'sink "{self._sink}" does not answer like Elasticsearch', hint="check url")
        return Answer(found.meta.status, found.body or "")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _connected(elasticsearch: Any, elastic_transport: Any, spec: SearchSpec) -> Any:
    class Untouched(elastic_transport.Serializer):  # type: ignore[misc]
        """Leaves bodies as they are, and answers as text: a document must come back byte for byte."""

        def loads(self, data: bytes) -> str:
            return data.decode()

        def dumps(self, data: bytes) -> bytes:
            return data

    kinds = ("application/json", "application/x-ndjson", "text/*", "application/*")
    return elasticsearch.Elasticsearch(
        [_with_port(url) for url in spec.urls], serializers=dict.fromkeys(kinds, Untouched()), **_tls(spec)
    )


def _tls(spec: SearchSpec) -> dict[str, Any]:
    if not any(url.startswith("https:") for url in spec.urls):
        return {}
    if not spec.tls_verify:
        # Each request would warn of what the user asked for.
        warnings.filterwarnings("ignore", message="Unverified HTTPS request")
        return {"verify_certs": False, "ssl_show_warn": False}
    return {"ca_certs": spec.ca} if spec.ca is not None else {}


def _with_port(url: str) -> str:
    """The client wants a port that is written out."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if ":" in host.rpartition("]")[2]:
        return url
    return f"{scheme}://{host}:{443 if scheme == 'https' else 80}{slash}{path}"
