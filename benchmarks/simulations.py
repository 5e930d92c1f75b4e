"""Speed and memory of whole simulations: `python -m benchmarks.simulations [--json FILE] [--quick]`.

Environment included: arms are drawn, noise is drawn, everything is metered. Every case runs in a process of its own,
with one thread, so that its peak memory is its own; compilation is not part of the time,
which is that of the processor.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

import fedbandits as fb
from benchmarks.apart import apart
from benchmarks.command import keep, parser
from benchmarks.warming import warm_up
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.catalogue import build
from fedbandits.environments import ENVIRONMENTS


@dataclass(frozen=True)
class Case:
    """One simulation."""

    title: str
    algorithm: str
    environment: str
    horizon: int
    environment_parameters: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    repeats: int = 1
    """So many runs, one after the other: what the first takes is told apart, and the best counts."""


def large(quick: bool) -> Iterator[Case]:
    """10^7 decisions."""
    horizon = 500 if quick else 10_000
    size = {"clients": 1000, "arms": 10, "dim": 10}
    for name in ("random", "independent-linucb", "dislinucb", "async-linucb", "fedlinucb-async"):
        yield Case("n=1000 K=10 d=10, fresh arms", name, "linear", horizon, size)
    for name in ("random", "dislinucb", "fedlinucb-async"):
        yield Case("n=1000 K=10 d=10, hashed arms", name, "linear", horizon, size | {"draws": "hash"})
    yield Case("n=1000 K=10 d=10, pool of 1000", "dislinucb", "linear", horizon, size | {"pool": 1000})


def growing(quick: bool) -> Iterator[Case]:
    """Time per decision and memory as one size grows."""
    decisions = 20_000 if quick else 200_000
    small = {"clients": 100, "arms": 10, "dim": 10}
    for n in (10, 100, 1_000, 10_000, 100_000):
        horizon = max(5, decisions // n)
        for title, size in (("agents", {"clients": n}), ("agents, hashed arms", {"clients": n, "draws": "hash"})):
            yield Case(title, "dislinucb", "linear", horizon, small | size, repeats=3)
    for d in (5, 10, 25, 50, 100):
        yield Case("dimension", "dislinucb", "linear", max(20, decisions // 100 * 10 // d), small | {"dim": d})
    for k in (5, 10, 100, 1_000):
        yield Case("arms", "dislinucb", "linear", max(20, decisions // 100 * 10 // k), small | {"arms": k})


def many(quick: bool) -> Iterator[Case]:
    """A million agents through several synchronisations: memory, and what it costs beside matrices of their own."""
    size = {"arms": 10, "dim": 25, "draws": "hash"}
    for n, memory in (
        (10_000, "own"),
        (10_000, "shared"),
        (100_000, "own"),
        (100_000, "shared"),
        (1_000_000, "shared"),
    ):
        if quick and n > 10_000:
            continue
        # the more agents, the more is known after a synchronisation, and the less one more observation grows it
        often = {"memory": memory, "threshold": 50.0 / n}
        yield Case("synchronised agents", "dislinucb", "linear", 15, size | {"clients": n}, often)


def clustered(quick: bool) -> Iterator[Case]:
    """The publication's run, every algorithm; beside released codes, see `benchmarks.peers`."""
    horizon = 300 if quick else 3_000
    names = ("independent-linucb", "dislinucb", "hetofedbandit", "hetofedbandit-pq", "hetofedbandit-dr")
    names += ("hetofedbandit-e", "hetofedbandit-async", "oracle-clusters", "fclub-dc", "club", "dyclu")
    for name in names:
        yield Case("N=50 M=5", name, "clustered-linear", horizon, {"clients": 50, "clusters": 5})
    for n in (30, 100, 300, 1000):
        # re-clustering tests n^2 pairs at every trigger: beyond a few hundred agents there would be little else to see
        names = ("dislinucb", "hetofedbandit") if n > 300 else ("dislinucb", "hetofedbandit", "hetofedbandit-e")
        for name in names:
            size = {"clients": n, "clusters": 5}
            yield Case("growth with N", name, "clustered-linear", max(100, horizon // 5), size)


def generalized(quick: bool) -> Iterator[Case]:
    """The publication's run of FedGLB-UCB, 400,000 decisions."""
    fast = {"threshold": 5.0, "scale": 0.1}
    horizon = 200 if quick else 2_000
    yield Case("N=200, D=5", "fedglb-ucb", "logistic", horizon, {"clients": 200}, fast)
    yield Case("N=200, D=5", "fedglb-newton", "logistic", horizon, {"clients": 200}, fast)


def measure(case: Case) -> dict[str, Any]:
    """Run a case shortly for compilation and fully for the record, in this process."""
    algorithm = build(ALGORITHMS, case.algorithm, case.parameters, "algorithm")
    small = {**case.environment_parameters, "clients": min(8, case.environment_parameters["clients"])}
    warm_up(algorithm, build(ENVIRONMENTS, case.environment, small, "environment"), 80)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    environment = build(ENVIRONMENTS, case.environment, case.environment_parameters, "environment")
    runs = []
    for _ in range(case.repeats):
        began = time.process_time()
        trace = fb.simulate(algorithm, environment, case.horizon)
        runs.append(time.process_time() - began)
    seconds = min(runs)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "title": case.title,
        "algorithm": case.algorithm,
        **case.environment_parameters,
        "horizon": case.horizon,
        "decisions": int(trace.decisions[-1]),
        "seconds": seconds,
        "decisions_per_second": int(trace.decisions[-1]) / seconds,
        "first_seconds": runs[0],
        "megabytes": max(after - before, 0) / 1024,
        "memory": case.parameters.get("memory", ""),
        "syncs": int(trace.syncs[-1]),
    }


def show(console: Console, title: str, entries: list[dict[str, Any]]) -> None:
    """A table of measured cases."""
    table = Table(title=title)
    for column in ("case", "algorithm", "n", "K", "d", "decisions"):
        table.add_column(column, no_wrap=column == "algorithm")
    for column in ("syncs", "decisions/s", "µs each", "MB more"):
        table.add_column(column, justify="right")
    for entry in entries:
        rate = entry["decisions_per_second"]
        shape = [str(entry.get(name, "")) for name in ("clients", "arms", "dim")]
        figures = [
            f"{entry['decisions']:,}",
            f"{entry['syncs']:,}",
            f"{rate:,.0f}",
            f"{1e6 / rate:.2f}",
            f"{entry['megabytes']:,.0f}",
        ]
        name = f"{entry['algorithm']} {entry['memory']}".strip()
        table.add_row(entry["title"], name, *shape, *figures)
    console.print(table)


def main() -> None:
    """Run everything and print tables."""
    options = parser(__doc__).parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    report: dict[str, Any] = {}
    for title, cases in (
        ("Whole simulations", large(options.quick)),
        ("How cost grows", growing(options.quick)),
        ("Very many agents", many(options.quick)),
        ("The clustered family", clustered(options.quick)),
        ("The generalized linear family", generalized(options.quick)),
    ):
        report[title] = [apart(measure, case) for case in cases]
        show(console, title, report[title])
    keep(report, options.json)


if __name__ == "__main__":
    main()
