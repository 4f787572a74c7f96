"""The `opensearch` sink: the official client behind the small `Client` that the sink needs."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from flusso.errors import ConfigError, SinkRefused, SinkUnavailable
from flusso.sinks.search.connection import SearchSpec, base_headers, compressed, compresses, tls_failure
from flusso.sinks.search.server import Answer, Client


@dataclass(frozen=True, slots=True)
class OpenSearchSpec(SearchSpec):
    """How to reach an OpenSearch cluster and how indexes are made there."""

    library: ClassVar[str] = "opensearchpy"

    @property
    def preference(self) -> str:
        """Ask the primaries, which a refresh reaches first."""
        return "_primary"

    def client(self) -> Client:
        """Make a client; the first request connects."""
        return OpenSearchClient(self)


class OpenSearchClient:
    """opensearch-py as a `Client`."""

    def __init__(self, spec: SearchSpec) -> None:
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
        self._is_compressed = compresses(spec)
        self._client = _connected(opensearchpy, spec)

    def send(self, method: str, path: str, params: Mapping[str, str], body: bytes | None) -> Answer:
        """Send one request and give the answer whatever its status."""
        headers = {"content-type": "application/x-ndjson" if path.endswith("/_bulk") else "application/json"}
        if body is not None and self._is_compressed:
            body = compressed(body)
            headers["content-encoding"] = "gzip"
        try:
            text = self._client.transport.perform_request(
                method, path, params=dict(params), body=body, headers=headers
            )
            return Answer(200, text or "")
        except self._errors.SSLError as error:
            raise tls_failure(self._sink, error) from error
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


def _connected(opensearchpy: Any, spec: SearchSpec) -> Any:
    class Untouched(opensearchpy.serializer.JSONSerializer):  # type: ignore[misc]
        """Leaves answers as text: a document must come back byte for byte."""

        def loads(self, s: str) -> str:
            return s

    return opensearchpy.OpenSearch(
        hosts=list(spec.urls),
        headers=base_headers(spec),
        serializer=Untouched(),
        timeout=spec.timeout_s,
        max_retries=0,
        retry_on_timeout=True,
        verify_certs=spec.tls_verify,
        ssl_show_warn=False,
        ca_certs=spec.ca,
    )


def _failed(error: Any) -> Answer:
    return Answer(
        int(error.status_code), json.dumps(error.info) if error.info is not None else str(error.error)
    )
