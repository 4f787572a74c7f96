"""The guide for beginners works: its commands run in its order, and print what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from commands import FLUSSO
from fix_postgres import Database

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "getting-started.md").read_text()
_BLOCK = re.compile(r"<!-- (sql|run|output|file: \S+) -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPACE = re.compile(r'"(?:[^"\\]|\\.)*"|\s+')


def _dense(text: str) -> str:
    return _SPACE.sub(lambda found: found[0] if found[0].startswith('"') else "", text)


def _assert_shows(shown: str, printed: str) -> None:
    """The lines shown are printed, in this order; `…` stands for any number of others."""
    rest = iter(printed.splitlines())
    for line in shown.splitlines():
        assert line == "…" or line in rest, f"{line!r} is not printed: {printed}"


def _run(command: str, folder: Path, env: dict[str, str]) -> str:
    name, *arguments = shlex.split(command)
    assert name == "flusso"
    done = subprocess.run(
        [*FLUSSO, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_guide_leads_from_an_empty_folder_to_a_searched_index(
    database18: Database, tmp_path: Path
) -> None:
    env = os.environ | {"DATABASE_URL": database18.dsn.text, "FLUSSO_SLOT": f"slot_{database18.name}"}
    printed = ""
    commands = 0
    for kind, language, text in _BLOCK.findall(GUIDE):
        match kind:
            case "sql":
                database18.execute(text)
            case "run":
                for command in text.splitlines():
                    printed = _run(command, tmp_path, env)
                    commands += 1
            case "output" if language == "json":
                assert _dense(printed) == _dense(text)
            case "output":
                _assert_shows(text, printed)
            case _:
                _assert_shows(text, (tmp_path / kind.removeprefix("file: ")).read_text())
    assert commands == 7
