"""Fixtures live in `fix_<thing>.py`, one file for each real part. Here: how tests go to processes."""

import pytest

pytest_plugins = ["fix_postgres", "fix_search", "fix_spark", "fix_standby", "fix_figures", "fix_stage"]


_SHARED = "shared"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Name the process of each test, for runs with several.

    All that use the Spark session or the search server, which take long to start, run in the same one. What
    starts a Spark of its own goes by its file, like all else.
    """
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group_of(item)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Let what takes longest begin first, else one process ends long after the other.

    Refuse to run without the groups: every process would start servers and a Spark of its own.
    """
    session.items.sort(key=_place_of)
    is_grouped = getattr(session.config.option, "loadgroup", False)
    if is_grouped and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("this pytest-xdist does not know the groups of this pytest's tests")


def _group_of(item: pytest.Item) -> str:
    is_shared = "spark_session" in getattr(item, "fixturenames", ())
    return _SHARED if is_shared or item.get_closest_marker("opensearch") else item.path.stem


def _place_of(item: pytest.Item) -> int:
    if _group_of(item) == _SHARED:
        return 0
    return 1 if item.get_closest_marker("spark") else 2
