"""How `flusso` begins: with a quiet answer to Ctrl-C, before the second that the imports take.

A command that ends in order, as `run`, puts its own handlers in place; the others leave at once.
"""

from __future__ import annotations

import os
import signal

_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from flusso.cli.main import main as run

    run()


def _leave(number: int, frame: object) -> None:
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
