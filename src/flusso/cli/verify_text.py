"""What `flusso verify` prints: a few lines for each index, or JSON for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flusso.cli.blind_text import blind_to_json, print_blind
from flusso.cli.report import open_console, printable
from flusso.engine.verify.facts import Uncompared, Verification, Verified
from flusso.engine.verify.judge import Difference, Kind
from flusso.engine.verify.pace import Pace

_PRINTED = 20
"""Differences of an index on a terminal; JSON has more of them."""
_PACES = {
    Pace.UNFOLLOWED: "nobody follows: what changed since flusso run ended is counted as a difference too",
    Pace.OWED: "flusso run is still building documents anew",
    Pace.STUCK: "flusso run does not come on",
}


def print_verification(found: Verification) -> None:
    """Print what was found, and what is worth knowing beside it."""
    console = open_console(stderr=False)
    for one in found.indexes:
        for line in _lines(one):
            console.print(printable(line))
    for index, sink in found.unreadable:
        console.print(f'"{index}" in sink "{sink}" cannot be compared: that sink keeps nothing')
    for lost in found.uncompared:
        console.print(printable(f'"{lost.index}" in sink "{lost.sink}" was not compared: {lost.error}'))
    print_blind(console, found.blind)
    if not found.is_whole:
        console.print("stopped before the end: the rest was not compared")


def _lines(one: Verified) -> Iterator[str]:
    yield f'"{one.index}" in sink "{one.sink}": {_verdict(one)} ({_scope(one)})'
    for difference in one.differences[:_PRINTED]:
        yield f"  {_described(difference, one)}"
    if one.remaining > _PRINTED:
        yield f"  … and {one.remaining - _PRINTED:,} more"
    if one.remaining:
        yield "  flusso verify --repair writes them anew" if not one.repaired else "  these differ still"
    if one.refused:
        yield f"  {one.refused:,} documents were refused by the repair: {', '.join(one.refusals)}"
    if not one.compares_content:
        yield "  only ids were compared: an ingest pipeline makes other documents of those it is given"
    if one.changing:
        yield f"  {one.changing:,} documents were written anew at every look: nothing is proven of them"
    if one.unproven:
        yield f"  {one.unproven:,} documents do not agree and may be written yet: nothing is proven of them"
    if one.pace in _PACES:
        yield f"  {_PACES[one.pace]}"
    if one.not_exact:
        yield f"  not exact yet, flusso run is to build documents anew: {'; '.join(one.not_exact)}"


def _verdict(one: Verified) -> str:
    parts = [f"{_counted(one.repaired)} repaired"] if one.repaired else []
    if one.remaining:
        parts.append(_counted(one.counts) if not one.repaired else f"{_counted(one.counts)} left")
    elif not one.repaired and one.is_whole:
        return "agrees" if one.agrees else "nothing is proven to differ"
    if not one.is_whole:
        parts.append("not compared to its end")
    return ", ".join(parts)


def _counted(counts: Mapping[Kind, int]) -> str:
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in Kind if counts.get(kind))


def _scope(one: Verified) -> str:
    rate = f"{one.documents / one.seconds:,.0f} documents/s" if one.seconds else ""
    if one.is_sample:
        return f"a sample of {one.documents:,} rows; documents without a row were not looked for"
    return f"{one.documents:,} rows and {one.held:,} documents, {one.seconds:.1f} s, {rate}"


def _described(difference: Difference, one: Verified) -> str:
    at = f" at {', '.join(difference.paths)}" if difference.paths else ""
    refused = ", in quarantine" if difference.id in one.quarantined else ""
    return f"{difference.kind} {difference.id}{at}{refused}"


def to_json(found: Verification) -> dict[str, object]:
    """Give what scripts may rely on."""
    return {
        "agrees": found.agrees,
        "is_whole": found.is_whole,
        "indexes": [_index_json(one) for one in found.indexes],
        "uncompared": [_uncompared_json(lost) for lost in found.uncompared],
        "unreadable": [{"index": index, "sink": sink} for index, sink in found.unreadable],
        "blind": blind_to_json(found.blind),
    }


def _uncompared_json(lost: Uncompared) -> dict[str, object]:
    error = lost.error
    facts = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    return {"index": lost.index, "sink": lost.sink, **facts, "exit_code": error.exit_code}


def _index_json(one: Verified) -> dict[str, object]:
    return {
        "index": one.index,
        "sink": one.sink,
        "agrees": one.agrees,
        "is_whole": one.is_whole,
        "rows": one.documents,
        "held": one.held,
        "is_sample": one.is_sample,
        "compares_content": one.compares_content,
        **{kind.value: one.counts.get(kind, 0) for kind in Kind},
        "differences": _differences(one.differences, one),
        "repaired": {kind.value: one.repaired.get(kind, 0) for kind in Kind},
        "repaired_documents": _differences(one.mended, one),
        "refused": one.refused,
        "changing": one.changing,
        "unproven": one.unproven,
        "pace": one.pace.value,
        "is_exact": not one.not_exact,
        "not_exact_because": list(one.not_exact),
        "seconds": round(one.seconds, 3),
        "docs_per_s": round(one.documents / one.seconds) if one.seconds else None,
    }


def _differences(found: Sequence[Difference], one: Verified) -> list[dict[str, object]]:
    return [
        {
            "id": difference.id,
            "kind": difference.kind.value,
            "paths": list(difference.paths),
            "is_quarantined": difference.id in one.quarantined,
        }
        for difference in found
    ]
