"""Values of the few types that the oracle uses: random ones, as SQL, and as documents show them.

The renderings follow docs/guides/types.md and are written here once more, in Python, on purpose.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from uuid import UUID

Value = None | bool | int | str | Decimal | date | datetime | UUID

KEY_TYPES = ("int", "bigint", "text", "uuid", "date", "numeric(8,2)")
TYPES = (*KEY_TYPES, "bool", "timestamptz")
KEYS = 10
"""So many values has a key column at most: rows must meet."""
_WORDS = ("a", "b", "", "~x", "p|q", "r\\s", "Ä ö", "zz", " b ", "qu\"o'te")
_FIRST_DAY = date(2024, 1, 1)
_FIRST_MOMENT = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number that is not whole, digit by digit."""

    text: str


def key_value(type_: str, number: int) -> Value:
    """Give one of the few values that keys and references of a type have."""
    match type_:
        case "int" | "bigint":
            return number
        case "text":
            return _WORDS[number % len(_WORDS)]
        case "uuid":
            return UUID(int=(number + 1) << 96 | number)
        case "date":
            return _FIRST_DAY + timedelta(days=number)
        case "numeric(8,2)":
            return Decimal(number).quantize(Decimal("0.01"))
        case _:
            raise ValueError(type_)


def random_value(rng: random.Random, type_: str) -> Value:
    """Give any value of a type, of a range small enough that values repeat."""
    match type_:
        case "bool":
            return rng.random() < 0.5
        case "timestamptz":
            micros = rng.choice((0, 500_000, 123_456))
            return _FIRST_MOMENT + timedelta(minutes=rng.randrange(200), microseconds=micros)
        case "numeric(8,2)":
            return Decimal(rng.randrange(-900, 900)).scaleb(-2).quantize(Decimal("0.01"))
        case "bigint":
            return rng.choice((rng.randrange(-9, 30), 9_000_000_000_000_000_000))
        case "int":
            return rng.randrange(-9, 30)
        case "text":
            return rng.choice(_WORDS) + rng.choice(("", "", "X", "é"))
        case _:
            return key_value(type_, rng.randrange(KEYS))


def literal(value: Value) -> str:
    """Write a value as SQL."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def parse(type_: str, operand: str | int | bool) -> Value:
    """Read a filter's operand as a value of a column's type."""
    match type_:
        case "numeric(8,2)":
            return Decimal(str(operand))
        case "date":
            return date.fromisoformat(str(operand))
        case "timestamptz":
            return datetime.fromisoformat(str(operand))
        case "uuid":
            return UUID(str(operand))
        case _:
            return operand


def print_text(value: Value) -> str:
    """Print a value as Postgres does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return _moment(value).replace("T", " ") + "+00"
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)


def document_id(key: tuple[Value, ...]) -> str:
    """Name a document by its key, as docs/guides/types.md says."""
    parts = [print_text(value) for value in key]
    if len(parts) > 1:
        parts = [part.replace("\\", "\\\\").replace("|", "\\|") for part in parts]
    text = "|".join(parts)
    return "~" + text if not text or text.startswith("~") else text


def as_json(value: Value) -> object:
    """Give what a document holds for a value of a field of its own kind."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal):
        text = format(value, "f")
        return Number(text) if "." in text else int(text)
    if isinstance(value, datetime):
        return _moment(value) + "Z"
    return str(value)


def _moment(value: datetime) -> str:
    text = value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text.rstrip("0").rstrip(".")


def mean(values: list[int] | list[Decimal]) -> Decimal:
    """Divide as Postgres does: to sixteen digits that count, in groups of four, without zeros at the end."""
    total, count = Decimal(sum(values)), Decimal(len(values))
    weight = _weight(total) - _weight(count)
    if _first_group(total) <= _first_group(count):
        weight -= 1
    scale = max(16 - 4 * weight, -int(total.as_tuple().exponent), 0)
    with localcontext(prec=100):
        exact = (total / count).quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
    text = format(exact, "f")
    return Decimal(text.rstrip("0").rstrip(".") if "." in text else text)


def _weight(number: Decimal) -> int:
    """Where the first group of four digits that is not zero stands; the group before the point is 0."""
    return number.adjusted() // 4 if number else 0


def _first_group(number: Decimal) -> int:
    return int(abs(number).scaleb(-4 * _weight(number))) if number else 0
