"""Fixtures live in `fix_<thing>.py`, one file for each real part. Here: how tests go to processes."""

import pytest

pytest_plugins = ["fix_postgres", "fix_search", "fix_spark", "fix_standby", "fix_figures", "fix_stage"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Name the process of each test, for runs with several.

    All that use the Spark session or the search server, which take long to start, run in the same one. So do
    those that start a Spark of their own: they look at what it leaves behind, which another's would be.
    """
    for item in items:
        is_shared = "spark_session" in getattr(item, "fixturenames", ())
        if is_shared or item.get_closest_marker("opensearch"):
            group = "shared"
        else:
            group = "processes" if item.get_closest_marker("spark") else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to run without the groups: every process would start servers and a Spark of its own."""
    is_grouped = getattr(session.config.option, "loadgroup", False)
    if is_grouped and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("this pytest-xdist does not know the groups of this pytest's tests")
