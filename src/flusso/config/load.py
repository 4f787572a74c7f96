"""Read flusso.toml and the schema files it names into a `Deployment`.

The way in for the command line. All problems of the toml and of every schema file are reported in one
error, each with file and line. Reads files and the environment it is given, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from flusso.config.connection import read_connection, read_read_url
from flusso.config.deployment import (
    MAX_KEPT,
    BatchSettings,
    Deployment,
    IndexSettings,
    OnError,
    ReplicaIdentity,
    SinkSettings,
    SourceSettings,
    SparkSettings,
)
from flusso.config.inherited import (
    inherited_keys,
    read_managed_identity,
    read_max_delay,
    read_server,
    read_stream,
    with_tls,
)
from flusso.config.names import index_flaw, prefix_flaw, publication_flaw, slot_flaw
from flusso.config.plain import read_plain, settings_of
from flusso.config.secret import Resolver
from flusso.config.sinks import read_sinks
from flusso.config.toml_nodes import read_toml
from flusso.diagnostic import Code, Diagnostic, Severity
from flusso.errors import ConfigError, SchemaError
from flusso.schema.model import IndexSchema
from flusso.schema.node import Node, Place, Problems, did_you_mean
from flusso.schema.parse import parse_schema
from flusso.schema.section import Section

ROOT_KEYS = ("prefix", "on_error", "keep_generations", "source", "spark", "batch", "sinks", "index")
_NAMED = ("slot", "publication")
"""Settings of the source with rules of their own, which a flag may override."""
SOURCE_KEYS = (
    "type",
    "connection_url",
    "read_url",
    *(setting.key for setting in settings_of(SourceSettings)),
)
BATCH_KEYS = tuple(setting.key for setting in settings_of(BatchSettings))
SPARK_KEYS = ("master", "conf")
INDEX_KEYS = ("name", "schema", "enabled", "on_error", "keep_generations", "verify_before_switch", "sinks")


@dataclass(frozen=True, slots=True)
class Overrides:
    """What flags or their environment twins say instead of the file."""

    slot: str | None = None
    publication: str | None = None
    prefix: str | None = None


def load_deployment(
    path: Path, *, env: Mapping[str, str], overrides: Overrides | None = None, needs_values: bool = True
) -> Deployment:
    """Read a deployment, or raise one `ConfigError` with all that is wrong with it.

    Without `needs_values` a secret that the environment does not have is no problem, and left out.
    """
    problems = Problems(str(path))
    node = read_toml(read_file(path), problems)
    if node is None:
        raise ConfigError.of(problems.in_order())
    folder = path.absolute().parent

    def read_schema(relative: str) -> IndexSchema:
        text = (folder / relative).read_text(encoding="utf-8-sig")
        return parse_schema(text, file=str(path.parent / relative))

    resolver = Resolver(env, problems, needs_values)
    return load_tree(node, resolver, folder, read_schema, overrides)


def load_tree(
    root: Node,
    resolver: Resolver,
    folder: Path,
    read_schema: Callable[[str], IndexSchema],
    overrides: Overrides | None = None,
) -> Deployment:
    """Read a deployment from the tree of its file, wherever that and the schemas come from."""
    problems = resolver.problems
    loader = _Loader(folder, problems, resolver, overrides or Overrides(), read_schema)
    deployment = loader.deployment(Section(root, problems, (*ROOT_KEYS, *inherited_keys(""))))
    own = problems.in_order()
    found = [*own, *loader.schema_problems]
    if any(finding.severity is Severity.ERROR for finding in own):
        raise ConfigError.of(found)
    if loader.schema_problems:
        raise SchemaError.of(found)
    return replace(deployment, warnings=tuple(own))


def read_file(path: Path) -> str:
    """Read a text, or raise the `ConfigError` that says why not."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _unreadable(path, Code.UNREADABLE_FILE, _reason(error)) from error
    except ValueError as error:
        raise _unreadable(path, Code.NOT_UTF8, "it is not UTF-8") from error


def _unreadable(path: Path, code: Code, reason: str) -> ConfigError:
    hint = "name the deployment file with --config" if code is Code.UNREADABLE_FILE else None
    return ConfigError.of([Diagnostic(code, f"cannot read {path}: {reason}", hint, file=str(path))])


def _reason(error: OSError) -> str:
    return (error.strerror or "not readable").lower()


def _kept(section: Section, default: int) -> int:
    return section.integer("keep_generations", default, low=0, high=MAX_KEPT)


@dataclass(slots=True)
class _Loader:
    folder: Path
    problems: Problems
    resolver: Resolver
    overrides: Overrides
    read_schema: Callable[[str], IndexSchema]
    schema_problems: list[Diagnostic] = field(default_factory=list)

    def deployment(self, root: Section) -> Deployment:
        read_server(root)
        read_stream(root)
        on_error = root.choice("on_error", OnError, OnError.STOP)
        sinks = read_sinks(root, self.resolver, self.folder)
        return Deployment(
            prefix=self._named(root, "prefix", "", self.overrides.prefix, prefix_flaw),
            source=self._source(root),
            spark=_spark(root),
            batch=_batch(root),
            sinks=sinks,
            indexes=self._indexes(root, on_error, _kept(root, 0), sinks),
        )

    def _named(
        self,
        section: Section,
        key: str,
        default: str,
        override: str | None,
        flaw_of: Callable[[str], str | None],
    ) -> str:
        """Read a name that a flag may override, and check the one that counts."""
        node = section.get(key)
        value = default
        if node is not None and node.value != "":
            value = section.text(key, default)
        if override is not None:
            if (flaw := flaw_of(override)) is not None:
                self.problems.add(Place(0, 0), f"{key} (overridden)", flaw, Code.INVALID_NAME)
            return override
        if (flaw := flaw_of(value)) is not None:
            section.wrong(flaw, key, code=Code.INVALID_NAME)
        return value

    def _source(self, root: Section) -> SourceSettings:
        root.need("source")
        section = root.inner("source", (*SOURCE_KEYS, *inherited_keys("source")))
        if "source" in root:
            section.need("type")
        if "type" in section and section.text("type") not in ("", "postgres"):
            section.wrong('the only type of source is "postgres"', "type", code=Code.UNKNOWN_WORD)
        return SourceSettings(
            connection=with_tls(section, read_connection(section, self.resolver)),
            read_url=read_read_url(section, self.resolver),
            slot=self._named(section, "slot", "flusso", self.overrides.slot, slot_flaw),
            publication=self._named(
                section, "publication", "flusso", self.overrides.publication, publication_flaw
            ),
            replica_identity=_replica_identity(section),
            **read_plain(section, SourceSettings, but=(*_NAMED, "replica_identity")),
        )

    def _indexes(
        self, root: Section, on_error: OnError, keeps: int, sinks: tuple[SinkSettings, ...]
    ) -> tuple[IndexSettings, ...]:
        nodes = root.items("index")
        if not nodes and not isinstance(getattr(root.get("index"), "value", None), dict):
            root.wrong("there is no [[index]]", "index", code=Code.NO_INDEX)
        known = _sink_names(root, sinks)
        lines: dict[str, int] = {}
        found: list[IndexSettings] = []
        for node in nodes:
            section = Section(node, self.problems, INDEX_KEYS)
            section.need("name", "schema")
            name = section.text("name")
            if name and (flaw := index_flaw(name)) is not None:
                section.wrong(flaw, "name", code=Code.INVALID_NAME)
            elif name and name in lines:
                message = f'index "{name}" is already defined on line {lines[name]}'
                section.wrong(message, "name", code=Code.DUPLICATE_INDEX)
            lines.setdefault(name, node.place.line)
            index = self._index(section, name, on_error, keeps, known)
            if index is not None:
                found.append(index)
        return tuple(found)

    def _index(
        self, section: Section, name: str, on_error: OnError, keeps: int, known: tuple[str, ...]
    ) -> IndexSettings | None:
        sinks = self._sink_names(section, known) if "sinks" in section else known
        enabled = section.boolean("enabled", True)
        policy = section.choice("on_error", OnError, on_error)
        relative = section.text("schema")
        schema = self._schema(section, relative) if relative else None
        if schema is None:
            return None
        return IndexSettings(
            name,
            schema,
            str(self.folder / relative),
            enabled,
            policy,
            sinks,
            _kept(section, keeps),
            section.boolean("verify_before_switch", False),
        )

    def _sink_names(self, section: Section, known: tuple[str, ...]) -> tuple[str, ...]:
        names = section.words("sinks")
        node = section.get("sinks")
        items: list[Node] = node.value if node is not None and isinstance(node.value, list) else []
        if not items:
            section.wrong("names no sink", "sinks", code=Code.EMPTY_LIST)
        for item, name in zip(items, names, strict=True):
            if name and name not in known:
                hint = did_you_mean(name, known)
                self.problems.at(item, f'there is no sink "{name}"', Code.UNKNOWN_SINK, hint=hint)
        if len(set(names)) < len(names):
            section.wrong("names a sink twice", "sinks", code=Code.DUPLICATE_ITEM)
        return names

    def _schema(self, section: Section, relative: str) -> IndexSchema | None:
        path = self.folder / relative
        try:
            return self.read_schema(relative)
        except SchemaError as error:
            self.schema_problems += [one for one in error.problems if one not in self.schema_problems]
        except OSError as error:
            section.wrong(f"cannot read {path}: {_reason(error)}", "schema", code=Code.UNREADABLE_FILE)
        except ValueError:
            section.wrong(f"cannot read {path}: it is not UTF-8, or not a path", "schema", code=Code.NOT_UTF8)
        return None


def _sink_names(root: Section, sinks: tuple[SinkSettings, ...]) -> tuple[str, ...]:
    """Name the sinks that an index may refer to: also those that are declared but wrong."""
    node = root.get("sinks")
    if node is not None and isinstance(node.value, dict) and node.value:
        return tuple(node.value)
    return tuple(sink.name for sink in sinks)


def _replica_identity(section: Section) -> ReplicaIdentity:
    default = ReplicaIdentity.AUTO
    if "manage_replica_identity" in section:
        is_managed = read_managed_identity(section)
        default = ReplicaIdentity.MANAGE if is_managed else ReplicaIdentity.AUTO
    return section.choice("replica_identity", ReplicaIdentity, default)


def _spark(root: Section) -> SparkSettings:
    section = root.inner("spark", SPARK_KEYS)
    node = section.get("conf")
    conf: dict[str, str] = {}
    if node is not None:
        section.mapping("conf")
        _flatten(node, "", conf, section.problems)
    return SparkSettings(master=section.text("master", "local[*]"), conf=conf)


def _flatten(node: Node, name: str, into: dict[str, str], problems: Problems) -> None:
    """Join nested tables by dots: TOML reads `spark.executor.memory = "2g"` as three of them."""
    match node.value:
        case dict():
            for key, item in node.value.items():
                _flatten(item, f"{name}.{key}" if name else key, into, problems)
        case bool():
            into[name] = str(node.value).lower()
        case str() | int() | float():
            into[name] = str(node.value)
        case _ if name:
            message = f"a Spark setting is a text, a number or true or false, this is {node.kind}"
            problems.at(node, message, Code.WRONG_TYPE)


def _batch(root: Section) -> BatchSettings:
    section = root.inner("batch", (*BATCH_KEYS, *inherited_keys("batch")))
    read_max_delay(section)
    return BatchSettings(**read_plain(section, BatchSettings))
