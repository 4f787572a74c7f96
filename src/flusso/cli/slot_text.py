"""How a slot is shown: as facts in lines for a human, as JSON for scripts."""

from __future__ import annotations

from rich.table import Table

from flusso.capture.slot import reader_of
from flusso.cli.report import open_console, printable
from flusso.engine.survey import SlotSurvey
from flusso.lsn import Lsn


def survey_to_json(survey: SlotSurvey) -> dict[str, object]:
    """Give what scripts may rely on; what is not known is null."""
    info, measure = survey.info, survey.measure
    reader = info and info.active_pid and {
        "pid": info.active_pid, "application": info.application, "address": info.address or None
    }  # fmt: skip
    return {
        "name": survey.name,
        "exists": info is not None,
        "type": info and info.slot_type,
        "plugin": info and info.plugin,
        "database": info and info.database,
        "is_temporary": info and info.is_temporary,
        "reader": reader or None,
        "inactive_since": measure.inactive_since,
        "confirmed": _lsn(info.confirmed_flush_lsn if info else None),
        "restart": _lsn(info.restart_lsn if info else None),
        "lag_bytes": measure.lag_bytes,
        "lag_s": measure.lag_s,
        "retained_bytes": measure.retained_bytes,
        "safe_wal_size": measure.safe_wal_size,
        "wal_status": info and info.wal_status,
        "invalidation_reason": info and info.invalidation_reason,
        "is_failover": info and info.is_failover,
        "is_synced": measure.is_synced,
        "server": {
            "system_identifier": survey.server.system_identifier,
            "timeline": survey.server.timeline,
            "wal_end": str(survey.server.lsn),
        },
        "indexes": [
            {"index": one.state.index, "sink": one.sink, "witness": str(Lsn(one.state.witness))}
            for one in survey.dependents
        ],
        "problems": [
            {"error": type(error).__name__, "message": error.message, "hint": error.hint}
            for error in survey.problems
        ],
    }


def print_survey(survey: SlotSurvey) -> None:
    """Print the facts, then what is wrong."""
    console = open_console(stderr=False)
    if survey.info is None:
        console.print(f'slot "{survey.name}" does not exist' + ("" if survey.problems else " yet"))
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, value in _facts(survey):
            table.add_row(name, printable(value))
        console.print(f'slot "{survey.name}"')
        console.print(table)
    print_problems(survey, stderr=False)


def print_problems(survey: SlotSurvey, *, stderr: bool) -> None:
    """Print what is wrong, each with its remedy."""
    console = open_console(stderr=stderr)
    for error in survey.problems:
        console.print(f"\n{type(error).__name__}: {printable(error.message)}")
        if error.hint:
            console.print(f"  help: {printable(error.hint)}")


def _facts(survey: SlotSurvey) -> list[tuple[str, str]]:
    info, measure = survey.info, survey.measure
    assert info is not None
    since = f" since {measure.inactive_since}" if measure.inactive_since else ""
    behind = "unknown" if measure.lag_bytes is None else f"{measure.lag_bytes:,} bytes"
    room = "no limit is set" if measure.safe_wal_size is None else f"{measure.safe_wal_size:,} bytes to go"
    kind = ("temporary " if info.is_temporary else "") + info.slot_type
    facts = [
        ("kind", f"{kind}, {info.plugin or 'no plugin'}, database {info.database or '-'}"),
        ("read by", reader_of(info) if info.active_pid else f"nobody{since}"),
        ("confirmed", f"{info.confirmed_flush_lsn or '-'}, of a WAL that ends at {survey.server.lsn}"),
        ("behind", behind + ("" if measure.lag_s is None else f", {measure.lag_s:.1f} s")),
        ("restart", str(info.restart_lsn or "-")),
        ("WAL kept", f"{measure.retained_bytes or 0:,} bytes, {info.wal_status or 'unknown'}, {room}"),
        ("failover", "yes" + (", a copy" if measure.is_synced else "") if info.is_failover else "no"),
        ("server", f"{survey.server.system_identifier}, timeline {survey.server.timeline}"),
    ]
    if info.invalidation_reason:
        facts.append(("given up", info.invalidation_reason))
    for one in survey.dependents:
        facts.append(("witness", f"{Lsn(one.state.witness)} of {one.state.index} in {one.sink}"))
    return facts


def _lsn(lsn: Lsn | None) -> str | None:
    return None if lsn is None else str(lsn)
