"""Fixtures live in `fix_<thing>.py`, one file for each real part. Here: how tests go to processes."""

import pytest

pytest_plugins = ["fix_postgres", "fix_search", "fix_spark", "fix_standby", "fix_figures", "fix_stage"]


_SEARCH, _SEARCH_AND_SPARK, _SPARK = "search", "search and spark", "spark"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Name the process of each test, for runs with several.

    All that use the search servers run in one, all that use the Spark session in another: both take long to
    start. Those that use both wait much and compute little: a third one has servers of its own for them. What
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
    if item.get_closest_marker("opensearch"):
        return _SEARCH_AND_SPARK if item.get_closest_marker("spark") else _SEARCH
    return _SPARK if "spark_session" in getattr(item, "fixturenames", ()) else item.path.stem


def _place_of(item: pytest.Item) -> int:
    if _group_of(item) in (_SEARCH, _SEARCH_AND_SPARK, _SPARK):
        return 0
    return 1 if item.get_closest_marker("spark") else 2
