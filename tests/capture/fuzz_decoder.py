"""The fuzz target: whatever bytes come, the decoders give a value or refuse them with a typed error.

`fuzz` is what a fuzzer calls with its bytes. Run as a program it makes up bytes itself, by damaging messages
of every kind, until it is interrupted:

    PYTHONPATH=src:tests:tests/capture python tests/capture/fuzz_decoder.py [SEED]
"""

from __future__ import annotations

import itertools
import random
import sys

from encode_pgoutput import encode

from flusso.capture import pgoutput as m
from flusso.capture.protocol import decode_frame
from flusso.capture.rows import RowAssembler
from flusso.capture.transactions import Assembler
from flusso.catalog import IdentityKind, TableName
from flusso.change import UNCHANGED, WatchedTable
from flusso.errors import DecodeError, SourceRefused
from flusso.lsn import Lsn

_USERS = WatchedTable(TableName("public", "users"), ("id",))
_RELATION = m.Relation(
    1,
    "public",
    "users",
    IdentityKind.FULL,
    (m.RelationColumn("id", 23, -1, True), m.RelationColumn("note", 25, -1, True)),
)
_OPENING = [encode(_RELATION), encode(m.Begin(Lsn(100), 0, 7))]
SEEDS = [
    *_OPENING,
    encode(m.Commit(Lsn(100), Lsn(108), 0)),
    encode(m.Origin(Lsn(1), "elsewhere")),
    encode(m.Type(70000, "public", "mood")),
    encode(m.Insert(1, ("1", None))),
    encode(m.Insert(1, ("1", "é" * 200))),
    encode(m.Update(1, None, None, ("1", UNCHANGED))),
    encode(m.Update(1, "K", ("1", None), ("2", "x"))),
    encode(m.Update(1, "O", ("1", "big"), ("1", UNCHANGED))),
    encode(m.Delete(1, "O", ("1", "x"))),
    encode(m.Truncate((1, 2), True, True)),
    encode(m.LogicalMessage(True, Lsn(5), "prefix", b"content")),
    b"k" + bytes(17),
    b"w" + bytes(24) + encode(m.Insert(1, ("1", None))),
]


def fuzz(data: bytes) -> None:
    """Give the same bytes to every decoder; anything but a typed refusal is a finding."""
    for make in (decode_frame, m.decode):
        try:
            make(data)
        except DecodeError:
            continue
    for assembler in (
        Assembler((_USERS,), piece_changes=3, piece_bytes=1000),
        RowAssembler((_USERS,), piece_changes=3, piece_bytes=1000, start=Lsn(0)),
    ):
        for opening in _OPENING:
            assembler.feed(opening)
        try:
            assembler.feed(data)
        except (DecodeError, SourceRefused):
            continue


def damaged(chance: random.Random) -> bytes:
    """Take a message and bend it: bytes changed, cut off, doubled, or another one's put in."""
    data = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[at:]
            case 2:
                data[at:at] = data[: chance.randrange(9)]
            case 3:
                other = chance.choice(SEEDS)
                data[at : at + 4] = other[chance.randrange(len(other)) :][:6]
            case _:
                data[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"))
    return bytes(data)


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1 << 32)
    chance = random.Random(seed)
    for count in itertools.count(1):
        data = damaged(chance)
        try:
            fuzz(data)
        except Exception:
            print(f"seed {seed}, input {count}: {data!r}", file=sys.stderr)
            raise
        if count % 100_000 == 0:
            print(f"{count} inputs", file=sys.stderr)


if __name__ == "__main__":
    main()
