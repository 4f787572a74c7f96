"""The guide to the configuration has every key, sink and flag, with what the code says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import typer

from flusso.cli.main import app
from flusso.config.deployment import MAX_KEPT, BatchSettings, OnError, SourceSettings
from flusso.config.inherited import INHERITED
from flusso.config.meaning import ALIKE, MEANING
from flusso.config.plain import Setting, settings_of
from flusso.config.sinks import SINKS

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "guides" / "configuration.md").read_text()
README = (ROOT / "README.md").read_text()
_OWNERS: dict[str, type] = {"source": SourceSettings, "batch": BatchSettings, **SINKS}
_DEFAULTS = {"on_error": "stop", "spark.master": "local[*]", "index.enabled": "true"}
_VALUES = {"on_error": ", ".join(f"`{word}`" for word in OnError), "index.on_error": "`stop`, `skip`"}
_DEFAULTS |= {"keep_generations": "0", "index.verify_before_switch": "false"}
_VALUES |= dict.fromkeys(("keep_generations", "index.keep_generations"), f"0 to {MAX_KEPT}")
_VALUES |= dict.fromkeys(("index.enabled", "index.verify_before_switch"), "`true`, `false`")
_VALUES |= {"source.type": "`postgres`"}


def _setting(key: str) -> Setting | None:
    section, _, name = key.rpartition(".")
    owner = _OWNERS.get(section)
    return next((found for found in settings_of(owner) if found.key == name), None) if owner else None


def _shown(key: str) -> tuple[str, str]:
    """Give the default and the possible values of a key as the guide writes them."""
    setting = _setting(key)
    if setting is None:
        default = _DEFAULTS.get(key, "")
        return (f"`{default}`" if default else "", _VALUES.get(key, ""))
    default = "" if setting.default is None else f"`{_plain(setting.default)}`"
    if setting.kind is bool:
        return default, "`true`, `false`"
    if setting.kind in (int, float):
        return default, f"{setting.low:,} to {setting.high:,}"
    if issubclass(setting.kind, StrEnum):
        return default, ", ".join(f"`{member.value}`" for member in setting.kind)
    return default, ""


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _table(head: tuple[str, ...], rows: list[str]) -> str:
    lines = [_row(*head), "|" + "---|" * len(head), *rows]
    return re.sub(r"\|  (?=\|)", "| ", "\n".join(lines))


def keys_table() -> str:
    keys = [key for key in MEANING if key.partition(".")[0] not in SINKS]
    return _table(
        ("key", "default", "values", "meaning"),
        [_row(f"`{key}`", *_shown(key), MEANING[key]) for key in keys],
    )


def sinks_table() -> str:
    rows = []
    for key, meaning in MEANING.items():
        kind, _, name = key.partition(".")
        if kind in SINKS:
            alike = [other for other, same in ALIKE.items() if same == kind]
            kinds = ", ".join(f"`{each}`" for each in (kind, *alike))
            rows.append(_row(kinds, f"`{name}`", *_shown(key), meaning))
    return _table(("type", "key", "default", "values", "meaning"), rows)


def inherited_table() -> str:
    return _table(("key", "meaning"), [_row(f"`{key}`", meaning) for key, meaning in INHERITED.items()])


def leaf_commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for word, each in inner.items():
        yield from leaf_commands(each, f"{name} {word}".strip())


def flags_table() -> str:
    found: dict[tuple[str, str], list[str]] = {}
    for name, command in leaf_commands(typer.main.get_command(app)):
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                flag = next(opt for opt in parameter.opts if opt.startswith("--"))
                found.setdefault((flag, str(parameter.envvar)), []).append(f"`{name}`")
    rows = [_row(f"`{flag}`", f"`{twin}`", ", ".join(names)) for (flag, twin), names in found.items()]
    return _table(("flag", "variable", "commands"), rows)


TABLES = {
    "every key": keys_table,
    "every sink": sinks_table,
    "inherited keys": inherited_table,
    "flags": flags_table,
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_the_guide_says_what_the_code_says(name: str) -> None:
    found = re.search(rf"<!-- table: {name} -->\n((?:\|.*\n)+)", GUIDE)
    assert found
    assert found[1].rstrip("\n") == TABLES[name]()


def test_the_readme_gives_every_key_the_same_meaning() -> None:
    kind = ""
    written: dict[str, str] = {}
    for line in README.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
        if len(cells) == 3 and cells[0].strip("`") in MEANING:
            written[cells[0].strip("`")] = cells[2]
        elif len(cells) == 4:
            kind = cells[0].partition(",")[0].strip("`") or kind
            written[f"{kind}.{cells[1].strip('`')}"] = cells[3]
    assert {key: written.get(key) for key in MEANING} == MEANING
