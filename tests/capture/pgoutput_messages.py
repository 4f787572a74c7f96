"""Hypothesis strategies for every kind of message, as Postgres may send it and odder than it does."""

from __future__ import annotations

from hypothesis import strategies as st

from flusso.capture import pgoutput as m
from flusso.catalog import IdentityKind
from flusso.change import UNCHANGED, Values
from flusso.lsn import Lsn

lsns = st.integers(0, 2**64 - 1).map(Lsn)
times = st.integers(-(2**63), 2**63 - 1)
u32 = st.integers(0, 2**32 - 1)
_characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
names = st.one_of(
    st.text(_characters, min_size=1, max_size=8),
    st.sampled_from(["a.b", 'say "hi"', " ", "Größe", "表", "x" * 63, "select", "é\n\t\\"]),
)
namespaces = names | st.sampled_from(["public", "pg_catalog"])
texts = st.one_of(
    st.text(_characters, max_size=12), st.sampled_from(["", "null", "\\x00ff", "{1,NULL}", "é" * 300])
)
values = st.none() | st.just(UNCHANGED) | texts


def rows(width: int | None = None) -> st.SearchStrategy[Values]:
    """Rows of a width, or of any."""
    low, high = (0, 6) if width is None else (width, width)
    return st.lists(values, min_size=low, max_size=high).map(tuple)


columns = st.builds(m.RelationColumn, names, u32, st.integers(-(2**31), 2**31 - 1), st.booleans())
KINDS: dict[type, st.SearchStrategy[m.Message]] = {
    m.Begin: st.builds(m.Begin, lsns, times, u32),
    m.Commit: st.builds(m.Commit, lsns, lsns, times),
    m.Origin: st.builds(m.Origin, lsns, names),
    m.Relation: st.builds(
        m.Relation,
        u32,
        namespaces,
        names,
        st.sampled_from(IdentityKind),
        st.lists(columns, max_size=5).map(tuple),
    ),
    m.Type: st.builds(m.Type, u32, namespaces, names),
    m.Insert: st.builds(m.Insert, u32, rows()),
    m.Update: st.builds(m.Update, u32, st.sampled_from(["K", "O"]), rows(), rows())
    | st.builds(m.Update, u32, st.none(), st.none(), rows()),
    m.Delete: st.builds(m.Delete, u32, st.sampled_from(["K", "O"]), rows()),
    m.Truncate: st.builds(m.Truncate, st.lists(u32, max_size=4).map(tuple), st.booleans(), st.booleans()),
    m.LogicalMessage: st.builds(m.LogicalMessage, st.booleans(), lsns, names, st.binary(max_size=9)),
}
messages = st.one_of(*KINDS.values())
