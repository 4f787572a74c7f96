from __future__ import annotations

from pathlib import Path

import pytest
from bench.report import BEGIN, END, Row, percentile, render_result, render_table, replace_result

PAGE = Path(__file__).parent.parent.parent / "docs" / "benchmarks.md"
MET = Row("rate", "0.95", "≥ 0.9", True)
MISSED = Row("memory", "600 MB", "≤ 500 MB", False, "of one process")


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 50), (95, 95), (99, 99), (100, 100)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], percent) == expected


def test_the_percentile_of_one_value_is_that_value() -> None:
    assert percentile([0.2], 50) == percentile([0.2], 99) == 0.2


def test_half_of_an_even_number_of_values_do_not_exceed_the_median() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.0


def test_a_missed_aim_stands_out_in_the_table() -> None:
    first, second = render_table([MET, MISSED]).splitlines()[2:]
    assert first.split("|")[4].strip() == "yes"
    assert second.split("|")[4].strip() == "**no**"


def test_a_row_without_an_aim_has_no_verdict() -> None:
    assert render_table([Row("idle", "0.1 s")]).splitlines()[2].split("|")[4].strip() == "–"


def test_the_lines_of_a_table_are_equally_long() -> None:
    assert len({len(line) for line in render_table([MET, MISSED]).splitlines()}) == 1


def test_a_result_says_when_where_and_how_it_was_made() -> None:
    text = render_result([MISSED], "2025-01-02", "4 cores", "python -m bench")
    assert text.startswith("2025-01-02, 4 cores.\n")
    assert "- memory: of one process" in text
    assert "`python -m bench`" in text


def test_a_new_result_takes_the_place_of_the_last_one() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = replace_result(page, r"new \1")
    assert once == f"before\n{BEGIN}\n\nnew \\1\n\n{END}\nafter\n"
    assert replace_result(once, r"new \1") == once


def test_a_page_without_a_place_for_the_result_is_refused() -> None:
    with pytest.raises(ValueError, match="no place"):
        replace_result("a page", "new")


def test_the_benchmarks_page_has_a_place_for_the_result() -> None:
    assert "the figures" in replace_result(PAGE.read_text(), "the figures")
