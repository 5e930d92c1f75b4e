"""What every algorithm costs at home: `python -m benchmarks.costs [--json FILE] [--quick]`.

Five agents in the environment that the catalogue names for it, all as it is by default: processor time of a decision,
environment, learning and talk included, the best of three runs; the bytes that an agent keeps when they are over; and
what each agent sends and hears. One thread; compilation is not timed. What has to be installed first is left out.
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
from benchmarks.warming import warm_up
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.catalogue import About

AGENTS, HORIZON = 5, 300
GRAPH = "erdos-renyi"
FLOWS = ("uplink", "downlink", "peerlink")


def cost(about: About, times: int) -> dict[str, Any]:
    """What an algorithm costs where it is at home, the best of so many `times`."""
    options: dict[str, Any] = {"network": GRAPH} if about.topology == "graph" else {}
    where = about.name, f"{about.environment}:clients={AGENTS}", HORIZON
    warm_up(*where, **options)
    best = math.inf
    for _ in range(times):
        run = fb.Simulation(*where, **options)
        began = time.process_time()
        run.run()
        best = min(best, time.process_time() - began)
    trace, problem = run.trace(), run.world.problem
    said = {name: getattr(trace, name) for name in FLOWS}
    return {
        "algorithm": about.name,
        "environment": about.environment,
        "network": options.get("network"),
        "agents": AGENTS,
        "dim": problem.dim,
        "arms": problem.arms,
        "turns": HORIZON,
        "microseconds": 1e6 * best / int(trace.decisions[-1]),
        "kept_bytes": sum(array.nbytes for array in run.agents.share(0).values()),
        "letters": {name: int(counts.messages[-1]) / AGENTS for name, counts in said.items()},
        "scalars": {name: int(counts.scalars[-1]) / AGENTS for name, counts in said.items()},
    }


def measured(quick: bool) -> Iterator[dict[str, Any]]:
    """Everything that can be imported here, in the order of the catalogue."""
    for kind in ALGORITHMS.importable().values():
        try:
            yield cost(kind.about, 1 if quick else 3)
        except fb.ConfigError as error:
            Console(stderr=True).print(f"{kind.about.name}: {error}")


def main() -> None:
    """Print a row for every algorithm."""
    options = parser(__doc__, quick="once").parse_args()
    table = Table("algorithm", "at home", "µs per decision", "bytes kept", "letters", "scalars")
    with threadpool_limits(1):
        report = list(measured(options.quick))
    for one in report:
        said = [f"{sum(one[what].values()):,.0f}" for what in ("letters", "scalars")]
        table.add_row(
            one["algorithm"], one["environment"], f"{one['microseconds']:.3g}", f"{one['kept_bytes']:,}", *said
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    keep(report, options.json)


if __name__ == "__main__":
    main()
