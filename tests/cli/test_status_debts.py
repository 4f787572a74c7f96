"""What `status` says of an index that is not exact yet."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from flusso.cli.status import IndexFacts, SlotFacts, _print, gather_indexes
from flusso.debt import Debt, Scope
from flusso.engine.session import SparkSpec
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.lsn import Lsn
from flusso.postgres.connect import Dsn
from flusso.schema.digest import digest
from flusso.schema.mapping import text_field_names
from flusso.sinks.base import IndexState, IndexTarget
from flusso.sinks.sqlite import SqliteSpec
from market import market_schema


def spec_with(folder: Path, *debts: Debt) -> PipelineSpec:
    sink, schema = SqliteSpec("local", folder / "index.db"), market_schema()
    shape = digest(schema, sink.shape)
    opened = sink.open()
    opened.ensure(IndexTarget("users", shape, 1, text_field_names(schema)), schema)
    opened.save_state(IndexState("users", shape, 1, is_seeded=True, debts=debts))
    opened.close()
    return PipelineSpec(Dsn(""), "s", "p", (IndexSpec("users", schema, (sink,)),), SparkSpec("local[2]"))


def test_an_index_with_a_debt_is_not_exact_yet_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    debt = Debt(
        Scope.HELD, ("public.orders was truncated", "public.items was truncated"), Lsn.parse("0/1A2B")
    )
    (facts,) = gather_indexes(spec_with(tmp_path, debt))
    assert asdict(facts)["is_exact"] is False
    assert asdict(facts)["debts"] == ({"scope": "held", "reasons": debt.reasons, "since": "0/1A2B"},)
    _print(SlotFacts("s", exists=False), [facts])
    printed = " ".join(capsys.readouterr().out.split())
    assert "not exact yet: public.orders was truncated; public.items was truncated (0/1A2B)" in printed


def test_a_seeded_index_without_a_debt_is_exact(tmp_path: Path) -> None:
    (facts,) = gather_indexes(spec_with(tmp_path))
    assert (facts.is_exact, facts.debts) == (True, ())


def test_what_a_sink_or_a_wait_says_is_shown_with_its_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    error, wait = "index [users_ab_1] blocked", "closed by [/x] :warning:"
    facts = IndexFacts("users", "local", "unavailable", error=error, waiting_for=wait, waiting_since="now")
    _print(SlotFacts("s", exists=None, error="refused [x]"), [facts])
    printed = capsys.readouterr().out
    assert all(text in printed for text in (error, wait, "refused [x]"))
