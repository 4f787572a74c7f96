"""Read what stands in a document where the column is null, in the form that the declared kind has there.

Used by `leaves`. A default never passes through the database, so what the index would refuse is refused
here: a date that is none, a number out of range. A text that spells a value of the kind is that value.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time

from flusso.diagnostic import Code
from flusso.schema.model import NUMBER_KINDS, TEXT_KINDS, WHOLE_KINDS, Json, ScalarKind
from flusso.schema.node import Node, Plain, Problems
from flusso.schema.section import Section, to_json

_LIMITS = {ScalarKind.SHORT: 2**15, ScalarKind.INTEGER: 2**31, ScalarKind.LONG: 2**63}
_MAX_FLOAT = 3.4028234e38


def read_default(section: Section, kind: ScalarKind) -> Json:
    """Read `default`; for an array column it may be a list."""
    node = section.get("default")
    if node is None or node.value is None:
        return None
    if kind is ScalarKind.JSON:
        check_numbers(node, section.problems)
        return to_json(node)
    if isinstance(node.value, list):
        return [_item(item, kind, section.problems) for item in node.value]
    return _item(node, kind, section.problems)


def check_numbers(node: Node, problems: Problems) -> None:
    """Note every number, at any depth, that is larger than a search server reads."""
    match node.value:
        case list():
            for item in node.value:
                check_numbers(item, problems)
        case dict():
            for item in node.value.values():
                check_numbers(item, problems)
        case int() | float() if not _is_finite(node.value):
            problems.at(node, "is a number that no index can hold", Code.OUT_OF_RANGE)


def _item(node: Node, kind: ScalarKind, problems: Problems) -> Json:
    value = node.value
    if value is None:
        return None
    if isinstance(value, list | dict) or not _is_plausible(value, kind):
        problems.at(node, f"the default of {kind} cannot be {node.kind}", Code.WRONG_TYPE)
        return None
    try:
        return _READERS[kind](value)
    except ValueError as error:
        problems.at(node, f"the default of {kind} {error}")
        return None


def _is_plausible(value: Plain, kind: ScalarKind) -> bool:
    """Whether a value of this type can mean one of the kind; a text always may."""
    if isinstance(value, str) or kind in TEXT_KINDS:
        return True
    if isinstance(value, bool):
        return kind is ScalarKind.BOOLEAN
    return kind in NUMBER_KINDS and (isinstance(value, int) or kind not in WHOLE_KINDS)


def _text(value: Plain) -> Json:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _boolean(value: Plain) -> Json:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError("must be true or false")


def _whole(kind: ScalarKind) -> Callable[[Plain], Json]:
    limit = _LIMITS[kind]

    def read(value: Plain) -> Json:
        try:
            number = int(value)  # type: ignore[arg-type]
        except ValueError:
            raise ValueError("must be a whole number") from None
        if not -limit <= number < limit:
            raise ValueError(f"must lie between {-limit} and {limit - 1}")
        return number

    return read


def _number(value: Plain) -> Json:
    try:
        number = value if isinstance(value, int | float) else float(str(value))
    except ValueError:
        raise ValueError("must be a number") from None
    if not _is_finite(number):
        raise ValueError("must be a number that an index can hold")
    return number


def _float(value: Plain) -> Json:
    number = _number(value)
    if isinstance(number, int | float) and abs(number) > _MAX_FLOAT:
        raise ValueError(f"must lie between -{_MAX_FLOAT:g} and {_MAX_FLOAT:g}")
    return number


def _is_finite(number: int | float) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False


def _uuid(value: Plain) -> Json:
    try:
        return str(uuid.UUID(str(value)))
    except ValueError:
        raise ValueError("must be a uuid") from None


def _date(value: Plain) -> Json:
    try:
        return date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise ValueError("must be a date like 2024-12-31") from None


def _timestamp(value: Plain) -> Json:
    """A moment with an offset is told in UTC, one without as it is; a time of day stays one."""
    text = str(value)
    try:
        return time.fromisoformat(text).isoformat()
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        return (
            moment.isoformat()
            if moment.tzinfo is None
            else moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
        )
    except (ValueError, OverflowError):
        raise ValueError("must be a moment like 2024-12-31T23:59:59Z") from None


_READERS: dict[ScalarKind, Callable[[Plain], Json]] = {
    **dict.fromkeys(TEXT_KINDS, _text),
    **{kind: _whole(kind) for kind in WHOLE_KINDS},
    ScalarKind.BOOLEAN: _boolean,
    ScalarKind.FLOAT: _float,
    ScalarKind.DOUBLE: _number,
    ScalarKind.DECIMAL: _number,
    ScalarKind.UUID: _uuid,
    ScalarKind.DATE: _date,
    ScalarKind.TIMESTAMP: _timestamp,
    ScalarKind.BINARY: _text,
}
