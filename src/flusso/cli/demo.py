"""`flusso demo`: the whole thing on one machine, with nothing to install."""

from __future__ import annotations


def demo() -> None:
    """Show it."""
