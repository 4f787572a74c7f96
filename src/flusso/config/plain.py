"""Read the settings whose type says all there is to say: numbers within bounds, flags, words, texts.

The dataclasses of `deployment` are the one list of keys, defaults and bounds: `load` and `sinks` read by it,
and the JSON Schema for editors is made from it. What needs more (secrets, names, paths) is read by hand.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

from flusso.config.secret import Secret
from flusso.schema.section import Section


@dataclass(frozen=True, slots=True)
class Setting:
    """One key with what its value may be."""

    key: str
    kind: type
    default: Any = None
    low: float = 0
    high: float = 0


def settings_of(owner: type, but: Collection[str] = ()) -> Iterator[Setting]:
    """List the plain settings of a dataclass; those read by hand are named by `but`."""
    hints = get_type_hints(owner)
    for item in dataclasses.fields(owner):
        kind = _kind(hints[item.name])
        if item.name not in but and kind is not None:
            default = None if item.default is dataclasses.MISSING else item.default
            yield Setting(item.name, kind, default, item.metadata.get("low", 0), item.metadata.get("high", 0))


def _kind(hint: Any) -> type | None:
    """Give the one type of a setting, `None` beside it or not; of anything else there is no plain one."""
    if get_origin(hint) in (Union, types.UnionType):
        hint = next((arg for arg in get_args(hint) if arg is not type(None)), None)
    return hint if isinstance(hint, type) and hint is not Secret and get_origin(hint) is None else None


def read_plain(section: Section, owner: type, but: Collection[str] = ()) -> dict[str, Any]:
    """Read all plain settings of a dataclass that are in the section, as its arguments."""
    return {
        setting.key: _read(section, setting) for setting in settings_of(owner, but) if setting.key in section
    }


def _read(section: Section, setting: Setting) -> Any:
    key, default = setting.key, setting.default
    if setting.kind is bool:
        return section.boolean(key, default)
    if setting.kind is int:
        return section.integer(key, default, low=int(setting.low), high=int(setting.high))
    if setting.kind is float:
        return section.number(key, default, low=setting.low, high=setting.high)
    if issubclass(setting.kind, StrEnum):
        return section.choice(key, setting.kind, default)
    return section.text(key, default)
