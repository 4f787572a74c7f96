from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from flusso.demo.screen import Screen, duration
from flusso.engine.events import SeedAdvanced, SeedFinished, SeedStarted
from flusso.seeding import Seeding


def _draw(*, is_terminal: bool) -> str:
    """Everything a screen can draw, with the longest texts of the demo."""
    output = io.StringIO()
    screen = Screen(Console(file=output, width=80, force_terminal=is_terminal, color_system=None))
    with screen.busy("warming up with single-row changes"):
        screen.done("shop: 20,000 customers, 60,000 orders, 150,000 order items", 2.75)
        screen.done("warm-up: 12 changes, the first took 817 ms, the rest 112 ms", 2.1)
    with screen.seeding() as draw:
        for done in range(17):
            seeding = Seeding(0, (), done, 16, done * 1250, done * 2_000_000, done / 3)
            draw((SeedAdvanced if done else SeedStarted)("customers", ("local",), seeding))
        draw(SeedFinished("customers", ("local",), 20_000, 5.3))
    screen.act(
        2, "A category gets a new name", "update categories set name = 'Cookbooks & Stories' where id = 18"
    )
    screen.compare("customer 4711", [("  category", "Cookbooks & Stories", "2 × Alpine Cookbook")])
    screen.arrived("3,528 documents searchable 2.6 s after the commit")
    screen.table([("10.7", "Giulia Kowalski", "Ljubljana", "Old Town Cookbook (Cookbooks & Stories)")])
    return output.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_nothing_that_is_drawn_is_wider_than_80_columns(is_terminal: bool) -> None:
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", _draw(is_terminal=is_terminal))
    assert "customers" in text
    assert max(len(line) for line in re.split(r"[\r\n]", text)) <= 80


def test_a_step_and_its_time_share_a_line() -> None:
    assert re.search(r"the rest 112 ms +2\.1 s$", _draw(is_terminal=False), re.MULTILINE)


def test_without_a_terminal_no_control_character_is_written() -> None:
    assert not {char for char in _draw(is_terminal=False) if ord(char) < 32} - {"\n"}


def test_without_a_terminal_each_advance_of_the_seed_is_a_line() -> None:
    lines = [line for line in _draw(is_terminal=False).splitlines() if "%" in line]
    assert len(lines) == 16
    assert lines[-1].split()[2] == "100%"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0844, "84 ms"), (0.9, "900 ms"), (2.64, "2.6 s"), (27.4, "27 s")]
)
def test_a_duration_has_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text
