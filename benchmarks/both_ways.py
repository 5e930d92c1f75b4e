"""Turns step by step, and by compiled functions: `python -m benchmarks.both_ways [--json FILE] [--quick]`.

Microseconds of CPU time for a decision, environment, metering and conversations included, both ways in turn in one
process, the best of three: K = 10 arms, d = 10. Runs are the same either way, which is a promise of the conformance
suite. Where agents offer no compiled turns both columns would say the same, and the second one is left out. One thread;
compilation is not timed.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import fedbandits as fb
from benchmarks.command import keep, parser

SIZES = {1: 1000, 10: 200, 100: 40}
"""How many steps for so many agents."""
ARMED, LINEAR, BOUNDED = "bernoulli:arms=10", "linear:dim=10,arms=10", "gap:dim=10,arms=10"
CLUSTERED = "clustered-linear:dim=10,arms=10,clusters=2,gamma=0.5"
CASES = (
    ("random", LINEAR),
    ("independent-lints", LINEAR),
    ("dislinucb", LINEAR),
    ("async-linucb", LINEAR),
    ("fedlinucb-async", LINEAR),
    ("async-linucb-am", "linear-shared:dim=10,arms=10,shared=6"),
    ("fedlinucb-private", BOUNDED),
    ("private-linucb", BOUNDED),
    ("ldp-linucb", BOUNDED),
    ("dislinucb:every=20|gaussian", BOUNDED),
    ("dislinucb|quantise", LINEAR),
    ("dislinucb|robust", LINEAR),
    ("hetofedbandit:explore=20", CLUSTERED),
    ("fclub-dc", CLUSTERED),
    ("fedglb-ucb", "logistic:dim=10,arms=10"),
    ("rclb", "linear-fixed:dim=10,arms=10"),
    ("ucb1", ARMED),
    ("ucb1:mean=catoni,central=0.25", ARMED),
    ("robust-ucb:order=2,raw=1", ARMED),
    ("kl-ucb", ARMED),
    ("thompson-beta", ARMED),
    ("dp-ucb-int", ARMED),
    ("gp-ucb", "rkhs-mixture:arms=10"),
    ("kernel-ucb", "cosine"),
    ("gp-ucb-features", "rkhs-mixture:arms=10"),
    ("dis-kernel-features", "cosine"),
    ("approx-dis-kernel-ucb", "cosine"),
    ("neural-ucb", "cosine"),
    ("neural-linear", "cosine"),
    ("lsvi-ucb", "linear-mdp"),
    ("fedlsvi-rare", "linear-mdp"),
)


def both(words: str, environment: Any, horizon: int, times: int, **options: Any) -> dict[str, float]:
    """Microseconds for each decision, step by step and, where compiled functions play, by them: in turn, the best of
    so many `times`.
    """
    for compiled in (True, False):
        _once(words, environment, 25, compiled, **options)
    best, played = {False: math.inf, True: math.inf}, 0
    for _ in range(times):
        for compiled in best:
            seconds, plays = _once(words, environment, horizon, compiled, **options)
            best[compiled], played = min(best[compiled], seconds), played + plays
    return {"stepped": 1e6 * best[False]} | ({"played": 1e6 * best[True]} if played else {})


def _once(words: str, environment: Any, horizon: int, compiled: bool, **options: Any) -> tuple[float, int]:
    """CPU seconds for each decision, and how many steps compiled functions have played."""
    run = fb.Simulation(words, environment, horizon, **options)
    run.compiled = compiled
    began = time.process_time()
    run.run()
    return (time.process_time() - began) / int(run.trace().decisions[-1]), run.played


def measured(quick: bool) -> Iterator[dict[str, Any]]:
    """All of `CASES`."""
    for words, environment in CASES:
        entry: dict[str, Any] = {"algorithm": words, "environment": environment}
        for n, horizon in SIZES.items():
            world = f"{environment}{',' if ':' in environment else ':'}clients={n}"
            entry[str(n)] = both(words, world, horizon // (2 if quick else 1), 1 if quick else 3)
        yield entry


def main() -> None:
    """Run everything and print a table."""
    options = parser(__doc__).parse_args()
    table = Table(title="µs of CPU time per decision, step by step, and played by compiled functions")
    table.add_column("algorithm", no_wrap=True)
    for n in SIZES:
        table.add_column(f"{n} agents", justify="right")
    with threadpool_limits(1):
        report = list(measured(options.quick))
    for entry in report:
        table.add_row(entry["algorithm"], *(", ".join(f"{v:.2f}" for v in entry[str(n)].values()) for n in SIZES))
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    keep(report, options.json)


if __name__ == "__main__":
    main()
