"""Wait for a condition with a deadline; the only place of the tests that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, what: str, timeout_s: float = 60.0) -> T:
    """Return the condition's first true value; fail with `what` was waited for."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline_s, f"waited {timeout_s:.0f} s in vain for {what}"
        time.sleep(0.02)  # between two looks at the condition
