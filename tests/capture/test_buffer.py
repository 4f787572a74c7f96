"""What waits to be taken: who is woken by it."""

from flusso.capture.buffer import EncodedPiece, PieceBuffer
from flusso.capture.transactions import Position
from flusso.lsn import Lsn

_START = Position(Lsn(100))
_IDLE = EncodedPiece(Position(Lsn(200)), 0, b"")
_CHANGES = EncodedPiece(Position(Lsn(300)), 1, b"x")


def test_a_position_without_changes_ends_no_wait() -> None:
    buffer = PieceBuffer(_START)
    buffer.expose([_IDLE])
    assert not buffer.wait(_START, 0.01)
    assert buffer.available(_START, max_changes=10, max_bytes=10) == _IDLE.end


def test_changes_end_a_wait_also_before_a_position_without_any() -> None:
    buffer = PieceBuffer(_START)
    buffer.expose([_CHANGES, EncodedPiece(Position(Lsn(400)), 0, b"")])
    assert buffer.wait(_START, 0)
    assert not buffer.wait(_CHANGES.end, 0)
