"""`make soak`: both tiers with new seeds, for as long as FLUSSO_SOAK_MINUTES says.

FLUSSO_SOAK_TIER takes one tier alone, `stepping` or `processes`; FLUSSO_ORACLE_SEED plays one seed again. It
ends at the first difference, with the seed, the world, what was done and the folder it is kept in.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fix_postgres import fresh_database
from flusso.demo.server import EmbeddedServer, create_server
from oracle.compare import Wrong
from oracle.processes import HARMS, Scene, play
from oracle.stepping import History
from oracle.world import SEED_VARIABLE, make_world, new_seeds
from search_server import NoServer, start_server

_SHARE_S = 120.0
"""How long one tier goes on before the other has its turn."""
_MOST_HARMS = 6
_own = contextmanager(fresh_database)


@dataclass(slots=True)
class Soak:
    """One run: its folder, its servers, and what it has done so far."""

    folder: Path
    stack: ExitStack
    histories: dict[str, int] = field(default_factory=dict)
    documents: int = 0
    _server: EmbeddedServer | None = None
    _search_url: str | None = None

    def step(self, seed: str) -> None:
        """Play one history of the first tier."""
        if self._server is None:
            self._server = create_server(18, fsync="off")
            self.stack.callback(self._server.remove)
        with _own(self._server) as database, tempfile.TemporaryDirectory() as folder:
            self._count("stepping", History(database, make_world(seed), Path(folder)).run())

    def process(self, seed: str) -> None:
        """Play one history of the second tier, on a server of its own."""
        world = make_world(seed)
        rng = world.rng("soak")
        folder = self.folder / seed
        folder.mkdir()
        url, has_sqlite = rng.choice(((None, True), (self._search(), False), (self._search(), True)))
        server = create_server(rng.choice((16, 18)))
        try:
            with _own(server) as database:
                scene = Scene(database, world, folder, url, has_sqlite or url is None)
                harms = rng.choices(list(HARMS), k=rng.randint(2, _MOST_HARMS))
                self._count("processes", play(scene, harms, is_early=rng.random() < 0.5))
        finally:
            server.remove()

    def _search(self) -> str | None:
        if self._search_url is None:
            try:
                server = start_server()
            except NoServer as error:
                print(f"without OpenSearch: {error}", flush=True)
                self._search_url = ""
            else:
                self.stack.callback(server.stop)
                self._search_url = server.url
        return self._search_url or None

    def _count(self, tier: str, documents: int) -> None:
        self.histories[tier] = self.histories.get(tier, 0) + 1
        self.documents += documents

    def __str__(self) -> str:
        counts = ", ".join(f"{count} histories of {tier}" for tier, count in self.histories.items())
        return f"{counts or 'nothing'}, {self.documents} documents compared"


def main() -> int:
    """Run for as long as the environment says; 1 when something differed."""
    minutes = float(os.environ.get("FLUSSO_SOAK_MINUTES", "30"))
    folder = Path(tempfile.mkdtemp(prefix="flusso-soak-"))
    began_s = time.monotonic()
    with ExitStack() as stack:
        soak = Soak(folder, stack)
        for tier, seed in _seeds(began_s + 60 * minutes):
            try:
                _tiers(soak)[tier](seed)
            except BaseException as error:
                _tell(soak, tier, seed, error)
                return 1
            if tier == "processes" or soak.histories[tier] % 20 == 0:
                print(f"{(time.monotonic() - began_s) / 60:.1f} min: {soak}", flush=True)
    print(f"clean for {(time.monotonic() - began_s) / 60:.1f} min: {soak}")
    return 0


def _tiers(soak: Soak) -> dict[str, Callable[[str], None]]:
    return {"stepping": soak.step, "processes": soak.process}


def _seeds(end_s: float) -> Iterator[tuple[str, str]]:
    """Give tiers and seeds until the time is up; one that is to be played again, once."""
    wanted = os.environ.get("FLUSSO_SOAK_TIER")
    tiers = [wanted] if wanted else ["stepping", "processes"]
    if os.environ.get(SEED_VARIABLE):
        yield from ((tier, seed) for tier in tiers for seed in new_seeds(1))
        return
    while time.monotonic() < end_s:
        for tier in tiers:
            share_s = min(end_s, time.monotonic() + _SHARE_S)
            while time.monotonic() < share_s:
                yield tier, new_seeds(1)[0]


def _tell(soak: Soak, tier: str, seed: str, error: BaseException) -> None:
    report = soak.folder / f"{tier}-{seed}.txt"
    report.write_text(f"{type(error).__name__}: {error}\n")
    shown = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
    print(f"{shown}\n\nafter {soak}\nagain: FLUSSO_SOAK_TIER={tier} {SEED_VARIABLE}={seed} make soak")
    print(f"kept in {soak.folder}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
