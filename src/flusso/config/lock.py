"""The lock: a deployment and all its schemas in one readable file, without a secret, with a checksum.

`flusso build` writes it, `flusso run --locked` runs by it. It keeps what the files say, not what the
environment makes of them: a `{ env = "VAR" }` stays one and is resolved when the lock is used. Flags, the
environment and the files that a path leads to stay outside. The checksum is over the content, so the layout
does not count; the digests say which generation of each index the deployment means.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from flusso.config.deployment import Deployment
from flusso.config.literals import refuse_literals
from flusso.config.load import Overrides, load_deployment, load_tree, read_file
from flusso.config.secret import Resolver
from flusso.config.toml_nodes import read_toml
from flusso.errors import ConfigError, LockError
from flusso.schema.model import IndexSchema, Json
from flusso.schema.node import Problems
from flusso.schema.parse import parse_tree
from flusso.schema.section import to_json, to_node
from flusso.schema.yaml_nodes import read_yaml

FORMAT = 1
"""Raise it when an older flusso would misread the file."""
SUFFIX = ".lock"
_BUILD = "run flusso build"

Digests = Mapping[str, Mapping[str, str]]
"""By index and sink."""


@dataclass(frozen=True, slots=True)
class Lock:
    """What a lock says."""

    flusso: str
    """The version that wrote it."""
    deployment: dict[str, Json]
    """flusso.toml as it is, without its comments."""
    schemas: dict[str, Json]
    """The schema files, by the path that the deployment names them with."""
    digests: Digests


def load_unlocked(config: Path) -> Deployment:
    """Read what is to be locked: all of it is checked, but no secret need be at hand."""
    return load_deployment(config, env={}, needs_values=False)


def make_lock(config: Path, digests: Digests, *, flusso: str) -> Lock:
    """Take the content of files that are known to load; a secret written into them is refused."""
    problems = Problems(str(config))
    node = read_toml(read_file(config), problems)
    assert node is not None
    refuse_literals(node, problems)
    if problems.found:
        raise ConfigError.of(problems.in_order())
    deployment = cast(dict[str, Json], to_json(node))
    indexes = cast(list[dict[str, Json]], deployment["index"])
    for index in indexes:
        # The order of sinks counts (a search asks the first that can), that of keys in a lock does not.
        index.setdefault("sinks", list(digests[str(index["name"])]))
    paths = sorted({str(index["schema"]) for index in indexes})
    return Lock(flusso, deployment, {path: _schema_tree(config.parent / path) for path in paths}, digests)


def _schema_tree(path: Path) -> Json:
    node = read_yaml(read_file(path), Problems(str(path)))
    assert node is not None
    return to_json(node)


def render_lock(lock: Lock) -> str:
    """Write a lock as the text of its file: sorted, indented, the same for the same content."""
    content = _content(lock)
    return (
        json.dumps(content | {"checksum": _checksum(content)}, indent=2, sort_keys=True, ensure_ascii=False)
        + "\n"
    )


def changes(lock: Lock, other: Lock) -> list[str]:
    """Name what differs in two locks; who wrote them does not count."""
    found = ["deployment"] if lock.deployment != other.deployment else []
    paths = sorted(lock.schemas.keys() | other.schemas.keys())
    found += [path for path in paths if lock.schemas.get(path) != other.schemas.get(path)]
    names = sorted(lock.digests.keys() | other.digests.keys())
    found += [f"digest of {name}" for name in names if lock.digests.get(name) != other.digests.get(name)]
    return found


def read_lock(path: Path) -> Lock:
    """Read a lock, or raise a `LockError` that says why it cannot be used."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise LockError(f"there is no lock at {path}", hint=_BUILD) from error
    except (OSError, ValueError) as error:
        raise LockError(f"cannot read {path}: {_reason(error)}", hint=_BUILD) from error
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not _is_whole(content.get("format")):
        raise LockError(f"{path} is not a lock", hint=_BUILD)
    if content["format"] > FORMAT:
        raise LockError(
            f"{path} has format {content['format']}, this flusso reads up to {FORMAT}",
            hint="use the flusso that built it, or build it again with this one",
        )
    return _verified(path, content)


def _verified(path: Path, content: dict[str, Json]) -> Lock:
    checksum = content.pop("checksum", None)
    try:
        is_intact = checksum == _checksum(content)
    except (ValueError, RecursionError):
        is_intact = False
    if not is_intact:
        raise LockError(
            f"{path} was changed after it was built: its checksum does not fit",
            hint="change flusso.toml or a schema file instead, then run flusso build",
        )
    flusso, deployment, schemas, digests = (
        content.get(key) for key in ("flusso", "deployment", "schemas", "digests")
    )
    if (
        isinstance(flusso, str)
        and isinstance(deployment, dict)
        and isinstance(schemas, dict)
        and isinstance(digests, dict)
        and all(isinstance(found, dict) for found in digests.values())
    ):
        return Lock(flusso, deployment, schemas, cast(Digests, digests))
    raise LockError(f"{path} is not a lock", hint=_BUILD)


def load_locked(
    path: Path, lock: Lock, *, env: Mapping[str, str], overrides: Overrides | None = None
) -> Deployment:
    """Make the deployment that a lock describes, with the secrets that the environment has."""

    def read_schema(relative: str) -> IndexSchema:
        if relative not in lock.schemas:
            raise LockError(f"{path} lacks {relative}", hint=_BUILD)
        return parse_tree(lock.schemas[relative], file=f"{path} ({relative})")

    resolver = Resolver(env, Problems(str(path)))
    folder = path.absolute().parent
    deployment = load_tree(to_node(lock.deployment), resolver, folder, read_schema, overrides)
    # The files may have changed since, or be gone: nobody is to look for lines in them.
    return replace(deployment, indexes=tuple(replace(index, schema_path="") for index in deployment.indexes))


def check_digests(path: Path, lock: Lock, digests: Digests, *, flusso: str) -> None:
    """Refuse a lock whose indexes this flusso would shape otherwise: it would fill them all anew, unasked."""
    for index, expected in lock.digests.items():
        if digests.get(index) != expected:
            raise LockError(
                f"{path} was built by flusso {lock.flusso}; "
                f'flusso {flusso} gives index "{index}" another shape',
                hint="run flusso build and use its lock, which fills the index anew; or keep the old flusso",
            )


def _content(lock: Lock) -> dict[str, Json]:
    return {
        "format": FORMAT,
        "flusso": lock.flusso,
        "deployment": lock.deployment,
        "schemas": lock.schemas,
        "digests": {index: dict(found) for index, found in lock.digests.items()},
    }


def _checksum(content: Mapping[str, Json]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _reason(error: OSError | ValueError) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return (strerror or "it is not UTF-8").lower()
