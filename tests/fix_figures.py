"""What tests have measured, shown once at the end, to be copied into docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_FIGURE = "figure"


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Give a function that notes what was measured, and how much it was."""
    # With the test's report it also gets here from another process.
    return lambda what, much: request.node.user_properties.append((_FIGURE, f"| {what} | {much} |"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = terminalreporter.getreports("passed")
    lines = {str(value) for report in passed for name, value in report.user_properties if name == _FIGURE}
    if lines:
        terminalreporter.section("figures")
        for line in sorted(lines):
            terminalreporter.write_line(line)
