"""Wait for a condition with a deadline; the only place of the tests that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from sizes import SIZES

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], *, what: str | Callable[[], str], timeout_s: float = SIZES.patience_s
) -> T:
    """Return the condition's first true value; fail with `what` was waited for, told as things then are."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline_s:
            raise AssertionError(
                f"waited {timeout_s:.0f} s in vain for {what if isinstance(what, str) else what()}"
            )
        time.sleep(0.02)  # between two looks at the condition
