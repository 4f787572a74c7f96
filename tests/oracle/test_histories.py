"""The first tier in `make test`: a few histories of seeds that stay the same. `make soak` takes new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from fix_postgres import Database
from oracle.stepping import History
from oracle.world import EXACT, fixed_seeds, make_world

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("seed", fixed_seeds("ada", "bo", "cy"))
@pytest.mark.parametrize("identity", EXACT)
def test_after_a_random_history_every_document_is_what_the_rows_say(
    database18: Database, tmp_path: Path, seed: str, identity: str
) -> None:
    History(database18, make_world(seed, identity), tmp_path).run()
