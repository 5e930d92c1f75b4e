"""Our rates on the settings of released codes: `python -m benchmarks.peers [--json FILE] [--quick]`.

Each case is one run of ours with the peer's own arms, width, ridge, noise, thresholds and horizon, environment and
metering included, in decisions per second of CPU time, best of a few seeds; the peer's rate on that setting, likewise
per CPU-second, stands in the case. Where our time goes is measured in the same runs: drawing arms, playing turns, in
which the conversations are that need no interpreter, and talking in Python; the rest is the loop's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

import fedbandits as fb
from benchmarks.apart import apart
from benchmarks.command import keep, parser
from benchmarks.warming import warm_up
from fedbandits.simulation import loop


@dataclass(frozen=True)
class Case:
    """A setting: algorithm and environment in words, the horizon, the released code's decisions per CPU-second there,
    and what multiple of it is aimed at.
    """

    algorithm: str
    environment: str
    horizon: int
    released: float
    aim: float = 60


_POOL = "dim=25,arms=25,pool=1000,noise=0.1"
_LOOSE = "width=loose,ridge=0.1"
_CLICKS = "dim=10,arms=25,spread=biased"


def cases() -> Iterator[Case]:
    """What was measured of released codes."""
    many = f"clustered-linear:clients=30,clusters=4,{_POOL}"
    yield Case(f"independent-linucb:{_LOOSE}", many, 300, 4230)
    yield Case(f"dislinucb:{_LOOSE},threshold=released-log-t", many, 300, 3388)
    # D = T / ((N / M) d log T)
    yield Case(f"hetofedbandit:{_LOOSE},explore=70,threshold=0.2805", many, 300, 1369)
    yield Case(f"fclub-dc:{_LOOSE}", many, 300, 1563)
    few = f"clustered-linear:clients=10,clusters=2,{_POOL}"
    yield Case(f"hetofedbandit-e:{_LOOSE},threshold=0.4208", few, 300, 116)
    yield Case("dyclu:ridge=0.1", few, 300, 141)
    alone = f"linear:clients=50,schedule=random,{_POOL}"
    yield Case(f"async-linucb:{_LOOSE},gamma_up=2,gamma_down=2", alone, 5000, 2978, aim=40)
    yield Case(f"dislinucb:{_LOOSE},threshold=released-log-t", alone, 5000, 3527, aim=40)
    small, large = f"logistic:clients=20,{_CLICKS}", f"logistic:clients=50,{_CLICKS}"
    # B = sqrt(N T) updates
    yield Case("fedglb-ucb:threshold=0.1206,scale=0.1", small, 200, 700)
    yield Case("fedglb-ucb-1:updates=63,scale=0.1", small, 200, 5474, aim=30)
    yield Case("fedglb-ucb-2:updates=63,scale=0.1", small, 200, 944)
    yield Case("fedglb-ucb-3:updates=63,scale=0.1", small, 200, 724)
    yield Case("fedglb-ucb:scale=0.1", large, 500, 732)
    yield Case("fedglb-ucb-1:updates=158,scale=0.1", large, 500, 2221, aim=30)
    yield Case("fedglb-ucb-2:updates=158,scale=0.1", large, 500, 649)


def measure(task: tuple[Case, int]) -> dict[str, Any]:
    """The best of some seeds, in this process; compilation is not part of it."""
    case, seeds = task
    warm_up(case.algorithm, case.environment, min(case.horizon, 100))
    best: dict[str, Any] = {}
    for seed in range(seeds):
        run = fb.Simulation(case.algorithm, case.environment, case.horizon, seed)
        spent: dict[str, float] = {}
        turns, talk = loop.play, loop.hold
        loop.play, loop.hold = _timed(turns, "turns", spent), _timed(talk, "talk", spent)
        if hasattr(run.world, "_draw"):
            run.world._draw = _timed(run.world._draw, "drawing", spent)
        began = time.process_time()
        run.run()
        took = time.process_time() - began
        loop.play, loop.hold = turns, talk
        if not best or took < best["seconds"]:
            decisions = int(run.trace().decisions[-1])
            shares = {part: spent.get(part, 0.0) / took for part in ("drawing", "turns", "talk")}
            best = {"seconds": took, "decisions": decisions, "syncs": run.ledger.syncs, **shares}
    rate = best["decisions"] / best["seconds"]
    described = {"algorithm": case.algorithm, "environment": case.environment, "horizon": case.horizon}
    return described | best | {"rate": rate, "released": case.released, "times": rate / case.released, "aim": case.aim}


def _timed(function: Callable[..., Any], part: str, spent: dict[str, float]) -> Callable[..., Any]:
    def timed(*args: Any) -> Any:
        began = time.process_time()
        try:
            return function(*args)
        finally:
            spent[part] = spent.get(part, 0.0) + time.process_time() - began

    return timed


def main() -> None:
    """Run everything and print a table."""
    options = parser(__doc__, "one seed each").parse_args()
    found = [apart(measure, (case, 1 if options.quick else 5)) for case in cases()]
    table = Table(title="On the settings of released codes")
    for column in ("algorithm", "environment", "T", "synchronisations"):
        table.add_column(column)
    for column in ("decisions/s", "released", "times", "aim", "drawing", "turns", "talk"):
        table.add_column(column, justify="right")
    for row in found:
        shares = [f"{row[part]:.0%}" for part in ("drawing", "turns", "talk")]
        figures = [f"{row['rate']:,.0f}", f"{row['released']:,.0f}", f"{row['times']:.0f}", f"{row['aim']:.0f}"]
        names = [row["algorithm"], row["environment"], str(row["horizon"]), str(row["syncs"])]
        table.add_row(*names, *figures, *shares)
    Console(width=None if sys.stdout.isatty() else 220).print(table)
    keep(found, options.json)


if __name__ == "__main__":
    main()
