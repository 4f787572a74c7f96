"""The oracle itself: with flusso broken on purpose it fails, within a few histories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path

import pytest

from fix_postgres import fresh_database
from flusso.demo.server import EmbeddedServer
from oracle.compare import Wrong
from oracle.mutants import MUTANTS
from oracle.stepping import History
from oracle.world import EXACT, make_world

pytestmark = pytest.mark.postgres

_MOST = 120
"""Histories after which a mutant must have been noticed."""
_own = contextmanager(fresh_database)


MUTED = {
    "drop_old_links": "old",
    "lose_references": "lose_references",
    "ignore_versions": "versions",
    "skip_fence": "visible",
    "confirm_early": "early",
}
"""By mutant the seeds of its histories: with some it is noticed sooner than with others."""


@pytest.mark.parametrize(("mutant", "seed"), MUTED.items(), ids=MUTED.keys())
def test_a_broken_flusso_is_noticed_within_a_few_histories(
    server_of: Callable[[int], EmbeddedServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mutant: str,
    seed: str,
) -> None:
    MUTANTS[mutant](monkeypatch.setattr)
    with pytest.raises(Wrong, match=f"FLUSSO_ORACLE_SEED={seed}"):
        _play(server_of(18), tmp_path, seed)


def test_forgetting_what_went_during_a_seed_is_noticed_before_anything_heals_it(
    server_of: Callable[[int], EmbeddedServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens are remembered under the default identity alone; later changes rebuild most of what was lost."""
    MUTANTS["forget_to_remember"](monkeypatch.setattr)
    with pytest.raises(Wrong, match="FLUSSO_ORACLE_SEED=forget"):
        _play(server_of(18), tmp_path, "forget", steps=0, identities=("default",))


def _play(
    server: EmbeddedServer, folder: Path, name: str, steps: int = 150, identities: Sequence[str] = EXACT
) -> None:
    worlds = (make_world(f"{name}{number}") for number in count())
    for number, world in enumerate(islice((w for w in worlds if w.identity in identities), _MOST)):
        inner = folder / str(number)
        inner.mkdir()
        with _own(server) as database:
            History(database, world, inner, steps=steps).run()
