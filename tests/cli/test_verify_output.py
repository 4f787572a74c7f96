"""What `flusso verify` prints of what was found, for people and for scripts."""

from __future__ import annotations

from typing import Any

import pytest

from flusso.catalog import TableName
from flusso.cli.verify import exit_code
from flusso.cli.verify_text import print_verification, to_json
from flusso.engine.blind import Blind
from flusso.engine.verify.facts import Uncompared, Verification, Verified
from flusso.engine.verify.judge import Difference, Kind
from flusso.engine.verify.pace import Pace
from flusso.errors import IndexUnready, SinkUnavailable

MISSING = Difference("3", Kind.MISSING)
DIFFERENT = Difference("a\x1b[31m|b", Kind.DIFFERENT, ("$.name", "$.orders[1].total"))
BLIND = Blind("users", "orders", TableName("public", "orders"), ("user_id",), ("alter table orders …",))


def shown(capsys: pytest.CaptureFixture[str], *indexes: Verified, **facts: Any) -> list[str]:
    print_verification(Verification(indexes, **facts))
    return capsys.readouterr().out.splitlines()


def test_an_index_that_agrees_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    one = Verified("users", "local", documents=2000, held=2000, seconds=2.0)
    assert shown(capsys, one) == [
        '"users" in sink "local": agrees (2,000 rows and 2,000 documents, 2.0 s, 1,000 documents/s)'
    ]


def test_differences_are_counted_named_and_the_remedy_told(capsys: pytest.CaptureFixture[str]) -> None:
    one = Verified(
        "users",
        "local",
        counts={Kind.DIFFERENT: 1, Kind.MISSING: 1},
        differences=(MISSING, DIFFERENT),
        quarantined=frozenset({"3"}),
    )
    lines = shown(capsys, one)
    assert lines[0].startswith('"users" in sink "local": 1 missing, 1 different (')
    assert lines[1:] == [
        "  missing 3, in quarantine",
        r"  different a\x1b[31m|b at $.name, $.orders[1].total",
        "  flusso verify --repair writes them anew",
    ]


def test_only_some_of_many_differences_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    many = tuple(Difference(str(number), Kind.EXTRA) for number in range(1000))
    lines = shown(capsys, Verified("users", "local", counts={Kind.EXTRA: 5000}, differences=many))
    assert len(lines) < 30
    assert "  … and 4,980 more" in lines


def test_a_repair_says_what_it_did_and_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    done = Verified("users", "local", repaired={Kind.MISSING: 2, Kind.EXTRA: 1})
    assert shown(capsys, done)[0].startswith('"users" in sink "local": 2 missing, 1 extra repaired (')
    half = Verified(
        "users", "local", repaired={Kind.MISSING: 2}, counts={Kind.DIFFERENT: 1}, differences=(DIFFERENT,)
    )
    lines = shown(capsys, half)
    assert lines[0].startswith('"users" in sink "local": 2 missing repaired, 1 different left (')
    assert lines[-1] == "  these differ still"


def test_what_limits_the_result_is_told_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    one = Verified(
        "users",
        "local",
        documents=10,
        is_sample=True,
        compares_content=False,
        changing=4,
        pace=Pace.UNFOLLOWED,
        not_exact=("orders was truncated",),
    )
    text = "\n".join(shown(capsys, one, unreadable=(("users", "lines"),), blind=(BLIND,), is_whole=False))
    for said in (
        "agrees (a sample of 10 rows; documents without a row were not looked for)",
        "only ids were compared",
        "4 documents were written anew at every look",
        "nobody follows",
        "not exact yet, flusso run is to build documents anew: orders was truncated",
        '"users" in sink "lines" cannot be compared',
        "blind: a row of public.orders that is deleted or moved leaves users.orders stale",
        "alter table orders …;",
        "stopped before the end",
    ):
        assert said in text


def test_what_could_not_be_waited_for_is_no_difference_and_no_agreement(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = Verified("users", "local", unproven=3, pace=Pace.STUCK)
    lines = shown(capsys, one)
    assert lines[0].startswith('"users" in sink "local": nothing is proven to differ (')
    assert lines[1:] == [
        "  3 documents do not agree and may be written yet: nothing is proven of them",
        "  flusso run does not come on",
    ]
    facts: Any = to_json(Verification((one,)))
    assert (facts["agrees"], facts["indexes"][0]["unproven"], facts["indexes"][0]["pace"]) == (
        False,
        3,
        "stuck",
    )


def test_the_json_has_every_fact_by_a_name_of_its_own() -> None:
    one = Verified(
        "users",
        "local",
        documents=100,
        held=99,
        counts={Kind.MISSING: 1},
        differences=(MISSING,),
        repaired={Kind.EXTRA: 1},
        mended=(Difference("9", Kind.EXTRA),),
        not_exact=("x",),
        seconds=0.5,
    )
    facts: Any = to_json(Verification((one,), (("users", "lines"),), (BLIND,)))
    assert facts["agrees"] is False
    assert facts["unreadable"] == [{"index": "users", "sink": "lines"}]
    assert facts["blind"][0]["sql"] == ["alter table orders …"]
    (index,) = facts["indexes"]
    assert (index["missing"], index["extra"], index["different"], index["agrees"]) == (1, 0, 0, False)
    assert index["differences"] == [{"id": "3", "kind": "missing", "paths": [], "is_quarantined": False}]
    assert index["repaired"] == {"missing": 0, "extra": 1, "different": 0, "unbuilt": 0}
    assert (index["rows"], index["held"], index["docs_per_s"], index["pace"]) == (100, 99, 200, "followed")
    assert (index["is_exact"], index["not_exact_because"]) == (False, ["x"])


def test_what_could_not_be_compared_is_told_with_its_reason_and_the_rest_stands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = Uncompared("orders", "local", IndexUnready("it is not seeded yet", hint="let flusso run fill it"))
    half = Verified("users", "local", repaired={Kind.MISSING: 2}, is_whole=False)
    assert shown(capsys, half, uncompared=(lost,))[-1] == (
        '"orders" in sink "local" was not compared: it is not seeded yet: let flusso run fill it'
    )
    assert shown(capsys, half)[0].startswith(
        '"users" in sink "local": 2 missing repaired, not compared to its end ('
    )
    facts: Any = to_json(Verification((half,), uncompared=(lost,)))
    assert (facts["agrees"], facts["indexes"][0]["is_whole"]) == (False, False)
    assert facts["uncompared"] == [
        {
            "index": "orders",
            "sink": "local",
            "error": "IndexUnready",
            "message": "it is not seeded yet",
            "hint": "let flusso run fill it",
            "exit_code": 4,
        }
    ]


def test_the_exit_code_is_the_worst_of_what_happened() -> None:
    fine, wrong = Verified("users", "local"), Verified("users", "local", counts={Kind.EXTRA: 1})
    refused = Verified("users", "local", counts={Kind.UNBUILT: 1}, refused=1, refusals=("7 (no number)",))
    away = Uncompared("orders", "local", SinkUnavailable("away"))
    assert [
        exit_code(Verification((fine,))),
        exit_code(Verification((fine, wrong))),
        exit_code(Verification((wrong,), uncompared=(away,))),
        exit_code(Verification((refused,), uncompared=(away,))),
        exit_code(Verification((wrong,), is_whole=False)),
    ] == [0, 1, 4, 5, 130]


def test_a_verification_that_was_stopped_does_not_agree() -> None:
    assert Verification((Verified("users", "local"),)).agrees
    assert not Verification((Verified("users", "local"),), is_whole=False).agrees
