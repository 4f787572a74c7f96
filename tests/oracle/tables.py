"""Random tables that refer to each other, and the DDL that makes them.

Keys of one or two columns and of several types, references to keys and to unique columns, with and without a
constraint, to the table itself, from inside the own key; junctions; partitions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from oracle.values import KEY_TYPES, TYPES

Columns = tuple[str, ...]
IDENTITIES = ("full", "index", "default")
"""What the WAL shows of an old row: all of it, its key and links, its key."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: str
    is_nullable: bool = True


@dataclass(frozen=True, slots=True)
class Link:
    """Columns that refer to the key, or another unique column, of a table."""

    columns: Columns
    table: str
    target: Columns
    constraint: str | None = None
    """What follows `references` in DDL; None where nothing keeps it."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table."""

    name: str
    schema: str
    columns: tuple[Column, ...]
    key: Columns
    unique: Columns = ()
    links: tuple[Link, ...] = ()
    partitions: int = 0

    @property
    def quoted(self) -> str:
        return f"{quote(self.schema)}.{quote(self.name)}"

    def type_of(self, column: str) -> str:
        return next(each.type for each in self.columns if each.name == column)

    @property
    def linking(self) -> Columns:
        """The columns that lead to another row, or another row here: the key, links, what others refer to."""
        names = [*self.key, *self.unique, *(name for link in self.links for name in link.columns)]
        return tuple(dict.fromkeys(names))

    @property
    def plain(self) -> list[Column]:
        """The columns that lead nowhere."""
        return [column for column in self.columns if column.name not in self.linking]


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def random_tables(rng: random.Random, identity: str) -> tuple[Table, ...]:
    """Make three to seven tables."""
    names = [_name(rng, number) for number in range(rng.randint(3, 7))]
    tables = [_alone(rng, name) for name in names]
    for number, table in enumerate(tables):
        tables[number] = _linked(rng, table, tables)
    if identity == "index":
        tables = [_without_nulls(table) for table in tables]
    return tuple(tables)


def _name(rng: random.Random, number: int) -> str:
    return rng.choice((f"t{number}", f"t{number}", f"t{number}", f'T "{number}" ö'))


def _alone(rng: random.Random, name: str) -> Table:
    """Make a table without references."""
    key = [Column("id", rng.choice(KEY_TYPES), False)]
    if rng.random() < 0.25:
        key.append(Column("nr", rng.choice(("int", "text")), False))
    values = [Column(f"v{n}", rng.choice(TYPES)) for n in range(rng.randint(2, 4))]
    values.append(Column("flag", "bool"))
    partitions = rng.randint(1, 3) if rng.random() < 0.15 else 0
    unique: Columns = ()
    if not partitions and rng.random() < 0.4:
        values.append(Column("code", rng.choice(("int", "text", "uuid")), rng.random() < 0.5))
        unique = ("code",)
    schema = "far" if rng.random() < 0.1 else "public"
    return Table(
        name, schema, (*key, *values), tuple(column.name for column in key), unique, partitions=partitions
    )


def _linked(rng: random.Random, table: Table, others: Sequence[Table]) -> Table:
    count = rng.choice((0, 1, 1, 2, 2, 3))
    for number in range(count):
        table = _with_link(rng, table, rng.choice(others), number)
    is_junction = len(table.links) >= 2 and not table.partitions and not table.unique and rng.random() < 0.35
    if not is_junction:
        return table
    links = tuple(_unkept_null(link) for link in table.links[:2])
    key = tuple(name for link in links for name in link.columns)
    columns = tuple(replace(c, is_nullable=c.is_nullable and c.name not in key) for c in table.columns)
    kept = tuple(column for column in columns if column.name not in table.key)
    if any(link.table == table.name for link in others_links(others, table)):
        return table
    return replace(table, columns=kept, key=key, links=(*links, *table.links[2:]))


def others_links(tables: Sequence[Table], table: Table) -> Iterator[Link]:
    """List the links of other tables, and of the table itself."""
    for each in (*tables, table):
        yield from (link for link in each.links if link.table == table.name)


def _unkept_null(link: Link) -> Link:
    """A column of a key cannot be set to null."""
    is_null = link.constraint is not None and "set null" in link.constraint
    return replace(link, constraint="on delete cascade") if is_null else link


def _with_link(rng: random.Random, table: Table, other: Table, number: int) -> Table:
    target = other.unique if other.unique and rng.random() < 0.5 else other.key
    names = tuple(f"r{number}_{name}" for name in target)
    types = [other.type_of(name) for name in target]
    types = ["bigint" if type_ == "int" and rng.random() < 0.2 else type_ for type_ in types]
    is_nullable = rng.random() < 0.8
    columns = tuple(Column(name, type_, is_nullable) for name, type_ in zip(names, types, strict=True))
    link = Link(names, other.name, target, _random_constraint(rng, is_nullable))
    return replace(table, columns=(*table.columns, *columns), links=(*table.links, link))


def _random_constraint(rng: random.Random, is_nullable: bool) -> str | None:
    if rng.random() < 0.65:
        return None
    action = rng.choice(("cascade", "set null" if is_nullable else "cascade", "no action"))
    deferred = rng.choice(("", " deferrable initially deferred"))
    return f"on delete {action} on update {rng.choice(('cascade', 'no action'))}{deferred}"


def _without_nulls(table: Table) -> Table:
    """Only columns that are never null can be part of an identity."""
    columns = tuple(
        replace(c, is_nullable=c.is_nullable and c.name not in table.linking) for c in table.columns
    )
    return replace(table, columns=columns, links=tuple(_unkept_null(link) for link in table.links))


def ddl(tables: Sequence[Table], identity: str) -> str:
    """Give the statements that make the tables."""
    statements = [f"create schema if not exists {quote(name)}" for name in sorted({t.schema for t in tables})]
    for table in tables:
        statements += [*_create(table), *_identify(table, identity)]
    by_name = {table.name: table for table in tables}
    for table in tables:
        for link in table.links:
            if link.constraint is not None:
                statements.append(
                    f"alter table {table.quoted} add foreign key ({_list(link.columns)}) references "
                    f"{by_name[link.table].quoted} ({_list(link.target)}) {link.constraint}"
                )
    return "".join(f"{statement};\n" for statement in statements)


def _create(table: Table) -> Iterator[str]:
    lines = [
        f"  {quote(c.name)} {c.type}{_collate(c)}{'' if c.is_nullable else ' not null'}"
        for c in table.columns
    ]
    lines.append(f"  primary key ({_list(table.key)})")
    if table.unique:
        lines.append(f"  unique ({_list(table.unique)})")
    how = f" partition by hash ({quote(table.key[0])})" if table.partitions else ""
    yield f"create table {table.quoted} (\n" + ",\n".join(lines) + f"\n){how}"
    for number, part in enumerate(parts(table)):
        bound = f"with (modulus {table.partitions}, remainder {number})"
        yield f"create table {part} partition of {table.quoted} for values {bound}"
    for link in table.links:
        yield f"create index on {table.quoted} ({_list(link.columns)})"


def _collate(column: Column) -> str:
    return ' collate "C"' if column.type == "text" else ""


def parts(table: Table) -> list[str]:
    """Name the partitions of a table, quoted."""
    return [f"{quote(table.schema)}.{quote(f'{table.name}_p{n}')}" for n in range(table.partitions)]


def _identify(table: Table, identity: str) -> Iterator[str]:
    if identity == "default":
        return
    for number, name in enumerate(parts(table) or [table.quoted]):
        if identity == "full":
            yield f"alter table {name} replica identity full"
        else:
            index = quote(f"identity of {table.name} {number}")
            yield f"create unique index {index} on {name} ({_list(table.linking)})"
            yield f"alter table {name} replica identity using index {index}"


def _list(names: Columns) -> str:
    return ", ".join(map(quote, names))
