"""Damage a good text in the ways that people and editors do, for tests that whatever is left is survived."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st


@st.composite
def spliced(draw: st.DrawFn, text: str, pieces: Sequence[str]) -> str:
    """Replace some stretches of the text by pieces."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.sampled_from(pieces)) + text[end:]
    return text


@st.composite
def revalued(draw: st.DrawFn, text: str, pieces: Sequence[str], separator: str) -> str:
    """Replace what stands behind the separator of some lines."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        key, found, _ = lines[at].partition(separator)
        lines[at] = f"{key}{found} {draw(st.sampled_from(pieces))}"
    return "\n".join(lines)


@st.composite
def rearranged(draw: st.DrawFn, text: str) -> str:
    """Move some lines elsewhere."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 4))):
        line = lines.pop(draw(st.integers(0, len(lines) - 1)))
        lines.insert(draw(st.integers(0, len(lines))), line)
    return "\n".join(lines)


@st.composite
def misspelt(draw: st.DrawFn, text: str) -> str:
    """Drop, double or exchange single characters."""
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(text) - 2)))
        pair = text[at : at + 2]
        text = text[:at] + draw(st.sampled_from([pair[1:], pair + pair, pair[::-1]])) + text[at + 2 :]
    return text
