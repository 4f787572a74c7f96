"""The JSON Schema of flusso.toml, for editors. Pure.

Made from what the loader reads by: the dataclasses with their defaults and bounds, and the tables of keys.
It never refuses a file that the loader takes; what it cannot say (which names are declared, what is set in
the environment) it leaves to `flusso check`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from flusso.config.conninfo import SECRETS, TEXTS, WHOLE, WORDS
from flusso.config.deployment import (
    MAX_KEPT,
    BatchSettings,
    IndexSettings,
    OnError,
    SourceSettings,
    SparkSettings,
)
from flusso.config.inherited import INHERITED, SslMode, inherited_keys
from flusso.config.load import INDEX_KEYS, ROOT_KEYS
from flusso.config.meaning import ALIKE, MEANING
from flusso.config.names import (
    INDEX_PATTERN,
    MAX_INDEX_BYTES,
    MAX_NAME_BYTES,
    MAX_PREFIX_BYTES,
    SINK_PATTERN,
    SLOT_PATTERN,
)
from flusso.config.plain import Setting, settings_of
from flusso.config.sinks import BY_HAND, INTERVAL, SINKS, sink_keys
from flusso.schema.json_schema import DIALECT, closed
from flusso.schema.model import Json

_TEXT: dict[str, Json] = {"type": "string", "pattern": r"\S"}
_ENV: dict[str, Json] = closed({"env": _TEXT}, ["env"])
_SECRET: dict[str, Json] = {"anyOf": [{"type": "string", "minLength": 1}, _ENV]}
_ADDRESS: dict[str, Json] = {"anyOf": [{"type": "string", "pattern": r"^\s*[Hh][Tt][Tt][Pp][Ss]?://"}, _ENV]}


def config_schema() -> dict[str, Json]:
    """Give the JSON Schema of flusso.toml."""
    sections: dict[str, Json] = {
        "prefix": {"anyOf": [{"const": ""}, _named(INDEX_PATTERN, MAX_PREFIX_BYTES)], "default": ""},
        "on_error": _words(OnError, OnError.STOP),
        "keep_generations": {"type": "integer", "minimum": 0, "maximum": MAX_KEPT, "default": 0},
        "source": _source(),
        "spark": _spark(),
        "batch": closed(_plain("batch", settings_of(BatchSettings)) | _inherited("batch")),
        "sinks": _sinks(),
        "index": {"type": "array", "minItems": 1, "items": _index()},
    }
    return {
        "$schema": DIALECT,
        "title": "flusso.toml",
        "description": "A deployment of flusso: where rows come from, where documents go, and how it runs.",
        "definitions": {"sparkSetting": _spark_setting()},
        **closed(
            {key: _meant("", key, sections[key]) for key in ROOT_KEYS} | _inherited(""), ["source", "index"]
        ),
    }


def _meant(section: str, key: str, value: Json) -> Json:
    """Add what the key means, which an editor shows beside it."""
    meaning = MEANING.get(f"{section}.{key}" if section else key)
    return {"description": meaning, **value} if isinstance(value, dict) and meaning else value


def _plain(section: str, settings: Iterable[Setting]) -> dict[str, Json]:
    return {setting.key: _meant(section, setting.key, _setting(setting)) for setting in settings}


def _setting(setting: Setting) -> dict[str, Json]:
    if setting.kind is bool:
        value: dict[str, Json] = {"type": "boolean"}
    elif setting.kind in (int, float):
        name = "integer" if setting.kind is int else "number"
        value = {"type": name, "minimum": setting.low, "maximum": setting.high}
    elif issubclass(setting.kind, StrEnum):
        return _words(setting.kind, setting.default)
    else:
        value = dict(_TEXT)
    return value if setting.default is None else {**value, "default": setting.default}


def _words(kind: type[StrEnum], default: StrEnum) -> dict[str, Json]:
    return {"enum": [member.value for member in kind], "default": default.value}


def _default(owner: type, key: str) -> Json:
    found: Json = next(setting.default for setting in settings_of(owner) if setting.key == key)
    return found


def _named(pattern: str, longest: int) -> dict[str, Json]:
    """A byte limit is also a limit of characters, if a milder one."""
    return {"type": "string", "pattern": pattern, "maxLength": longest}


def _source() -> dict[str, Json]:
    own: dict[str, Json] = {
        "type": {"const": "postgres"},
        "connection_url": _connection(),
        "read_url": _connection(),
        "slot": {**_named(SLOT_PATTERN, MAX_NAME_BYTES), "default": _default(SourceSettings, "slot")},
        "publication": {**_named(r"\S", MAX_NAME_BYTES), "default": _default(SourceSettings, "publication")},
    }
    by_hand = {key: _meant("source", key, value) for key, value in own.items()}
    plain = _plain("source", settings_of(SourceSettings, but=own))
    return closed(by_hand | plain | _inherited("source"), ["type"])


def _inherited(section: str) -> dict[str, Json]:
    """Describe the keys that a deployment of the Rust flusso may have besides."""
    address: dict[str, Json] = {"type": "string", "pattern": ":[0-9]{1,5}$"}
    whole: dict[str, Json] = {"type": "integer", "minimum": 0}
    values: dict[str, dict[str, Json]] = {
        "server": closed({"public_address": address, "private_address": address}),
        "stream": closed({"type": {"const": "channel"}, "capacity": whole}, ["type"]),
        "ssl_mode": {"enum": [mode.value for mode in SslMode]},
        "manage_replica_identity": {"type": "boolean"},
        "max_delay_ms": whole,
    }
    return {
        key: {
            "description": INHERITED[f"{section}.{key}" if section else key],
            **values.get(key, _TEXT),
        }
        for key in inherited_keys(section)
    }


def _connection() -> dict[str, Json]:
    return {"anyOf": [{"type": "string", "pattern": "^postgres(ql)?://|="}, _ENV, _connection_parts()]}


def _connection_parts() -> dict[str, Json]:
    parts: dict[str, Json] = dict.fromkeys(TEXTS, _TEXT)
    parts |= {key: {"enum": list(words)} for key, words in WORDS.items()}
    parts |= {key: {"type": "integer", "minimum": low, "maximum": high} for key, (low, high) in WHOLE.items()}
    parts |= dict.fromkeys(SECRETS, _SECRET)
    return {**closed(parts), "anyOf": [{"required": ["database"]}, {"required": ["service"]}]}


def _spark() -> dict[str, Json]:
    conf: dict[str, Json] = {"type": "object", "additionalProperties": {"$ref": "#/definitions/sparkSetting"}}
    master: dict[str, Json] = {**_TEXT, "default": _default(SparkSettings, "master")}
    own: dict[str, Json] = {"master": master, "conf": conf}
    return closed({key: _meant("spark", key, value) for key, value in own.items()})


def _spark_setting() -> dict[str, Json]:
    """TOML reads a dotted key as tables within tables."""
    inner: dict[str, Json] = {
        "type": "object",
        "additionalProperties": {"$ref": "#/definitions/sparkSetting"},
    }
    return {"anyOf": [{"type": ["string", "number", "boolean"]}, inner]}


def _sinks() -> dict[str, Json]:
    return {
        "type": "object",
        "propertyNames": {"pattern": SINK_PATTERN},
        "additionalProperties": {"oneOf": [_sink(kind) for kind in SINKS]},
    }


def _sink(kind: str) -> dict[str, Json]:
    own: dict[str, Json] = {
        "type": {"const": kind},
        "url": {"anyOf": [_ADDRESS, {"type": "array", "minItems": 1, "items": _ADDRESS}]},
        "username": _SECRET,
        "password": _SECRET,
        "api_key": _SECRET,
        "ca": _TEXT,
        "path": _TEXT,
        "refresh_interval": {"type": "string", "pattern": f"^({INTERVAL.pattern})$"},
    }
    plain = {setting.key: _setting(setting) for setting in settings_of(SINKS[kind], but=BY_HAND)}
    keys = sink_keys(kind)
    made = closed(
        {key: _meant(ALIKE.get(kind, kind), key, (plain | own)[key]) for key in keys} | _inherited("sink"),
        ["type", "path"] if "path" in keys else ["type"],
    )
    return made | ({"not": {"required": ["api_key", "username"]}} if "api_key" in keys else {})


def _index() -> dict[str, Json]:
    own: dict[str, Json] = {
        "name": _named(INDEX_PATTERN, MAX_INDEX_BYTES),
        "schema": _TEXT,
        "enabled": {"type": "boolean", "default": _default(IndexSettings, "enabled")},
        "on_error": _words(OnError, OnError.STOP),
        "keep_generations": {"type": "integer", "minimum": 0, "maximum": MAX_KEPT},
        "verify_before_switch": {
            "type": "boolean",
            "default": _default(IndexSettings, "verify_before_switch"),
        },
        "sinks": {"type": "array", "minItems": 1, "uniqueItems": True, "items": _TEXT},
    }
    return closed({key: _meant("index", key, own[key]) for key in INDEX_KEYS}, ["name", "schema"])
