"""A lean way to ask OpenSearch: one kept connection and no client library, so that asking costs little."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit


class Search:
    """One connection to the server. Not for several threads at a time."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._conn = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)

    def request(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Send a request and give its JSON; any refusal ends the run."""
        self._conn.request(method, path, body, {"content-type": "application/json"})
        answer = self._conn.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"OpenSearch answered {answer.status} to {method} {path}: {text[:300]!r}")
        return json.loads(text)

    def count(self, index: str) -> int:
        """Count what a search can see; none where readers have no such index yet."""
        found = self.request("GET", f"/{index}/_count?ignore_unavailable=true&filter_path=count")
        return int(found["count"])

    def find(self, index: str, mark: str) -> int:
        """Count the documents of an alias that a search for a mark finds."""
        body = {"query": {"term": {"mark": mark}}, "size": 0, "track_total_hits": True}
        path = f"/{index}/_search?filter_path=hits.total.value"
        return int(self.request("POST", path, json.dumps(body).encode())["hits"]["total"]["value"])

    def delete(self, pattern: str) -> None:
        """Delete all indexes whose names fit."""
        self.request("DELETE", f"/{pattern}?expand_wildcards=all")

    def version(self) -> str:
        """Give the server's version."""
        return str(self.request("GET", "/")["version"]["number"])

    def process_id(self) -> int:
        """Give the server's process id, which means something when it runs on this machine."""
        [node] = self.request("GET", "/_nodes/process?filter_path=nodes.*.process.id")["nodes"].values()
        return int(node["process"]["id"])

    def close(self) -> None:
        """Close the connection."""
        self._conn.close()
