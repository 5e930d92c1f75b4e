"""Speed of exact processes and of kernels in company: `python -m benchmarks.kernel_processes [--json FILE] [--quick]`.

Against a straightforward implementation that inverts K + lambda I anew for every observation, in one run, by CPU time;
how the cost of an observation and of a decision grows with the number of observations, and which share of a flop rate
that is; and what federations cost, at a server and on an Erdos-Renyi graph. One thread; compilation is not timed.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import fedbandits as fb
from benchmarks.command import keep, parser
from benchmarks.warming import warm_up
from fedbandits.models.kernels import SquaredExponential
from fedbandits.models.processes import Processes

DIM, ARMS, RIDGE = 10, 20, 1.0
KERNEL = SquaredExponential((1.0,) * DIM)
ONE = np.zeros(1, dtype=np.int64)


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """The median of CPU seconds."""
    found = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return statistics.median(found)


class Anew:
    """What the formulas say: mu = k^T (K + lambda I)^-1 y, with an inverse that is computed for every observation."""

    def __init__(self, points: np.ndarray, rewards: np.ndarray) -> None:
        self.points, self.rewards = points, rewards
        self.matrix = _kernel(points, points)

    def learn(self) -> None:
        """As after another observation."""
        self.inverse = np.linalg.inv(self.matrix + RIDGE * np.eye(len(self.matrix)))

    def posterior(self, arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """mu and sigma of every arm."""
        k = _kernel(arms, self.points)
        variance = 1.0 - np.einsum("kt,kt->k", k @ self.inverse, k)
        return k @ (self.inverse @ self.rewards), np.sqrt(variance)


def _kernel(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
    return np.exp(-0.5 * np.maximum(squares, 0))


def one_turn(count: int, repeats: int) -> dict[str, float]:
    """CPU seconds of a decision among `ARMS` arms and of an observation, with `count` of them known."""
    rng = np.random.default_rng(0)
    points, rewards = rng.normal(size=(count + repeats, DIM)) / np.sqrt(DIM), rng.normal(size=count + repeats)
    arms = rng.normal(size=(1, ARMS, DIM)) / np.sqrt(DIM)
    ours = Processes(1, KERNEL, RIDGE, count + repeats)
    for t in range(count):
        ours.learn(ONE, points[t : t + 1], rewards[t : t + 1])
    theirs = Anew(points[:count], rewards[:count])
    theirs.learn()
    for mine, other in zip(ours.posterior(ONE, arms), theirs.posterior(arms[0]), strict=True):
        np.testing.assert_allclose(mine[0], other, atol=1e-6)
    decide = seconds(lambda: ours.posterior(ONE, arms), repeats)
    inverting = seconds(theirs.learn, max(2, repeats // 5))
    deciding = seconds(lambda: theirs.posterior(arms[0]), repeats)
    more = iter(range(count, count + repeats))

    def append() -> None:
        t = next(more)
        ours.learn(ONE, points[t : t + 1], rewards[t : t + 1])

    append_seconds = seconds(append, repeats)
    return {
        "observations": count,
        "append": append_seconds,
        "decide": decide,
        "anew_append": inverting,
        "anew_decide": deciding,
        "ratio_append": inverting / append_seconds,
        "ratio_turn": (inverting + deciding) / (append_seconds + decide),
        "decide_gflops": ARMS * count**2 / decide / 1e9,
        "append_gflops": count**2 / append_seconds / 1e9,
    }


def federations(quick: bool) -> list[dict[str, Any]]:
    """CPU seconds of whole runs on `cosine`, d = 4, K = 20."""
    runs = [
        ("approx-dis-kernel-ucb", {"width": 0.3, "threshold": 5.0}, 20 if quick else 100),
        ("approx-dis-kernel-ucb", {"width": 0.3, "threshold": 1.0}, 20 if quick else 100),
        ("dis-kernel-ucb", {"width": 0.3, "threshold": 2.0}, 20),
        ("dis-kernel-features", {"width": 0.3, "threshold": 2.0}, 20 if quick else 100),
    ]
    found = []
    for name, parameters, agents in runs:
        algorithm = fb.algorithms.ALGORITHMS[name](**parameters)
        warm_up(algorithm, fb.environments.Cosine(clients=3, dim=4, arms=20), 12)
        environment = fb.environments.Cosine(clients=agents, dim=4, arms=20)
        began = time.process_time()
        trace = fb.simulate(algorithm, environment, 30 if quick else 100)
        found.append(
            {
                "algorithm": name,
                "threshold": parameters["threshold"],
                "agents": agents,
                "seconds": time.process_time() - began,
                "syncs": int(trace.syncs[-1]),
                "megabytes": float(trace.bytes[-1] / 1e6),
                "regret_per_agent": float(trace.regret[-1] / agents),
            }
        )
    return found


def graphs(quick: bool) -> list[dict[str, Any]]:
    """CPU seconds of whole runs on `heterogeneous-rbf`, 8 contexts of dimension 10, on an Erdos-Renyi graph with
    p = 0.7, where 256 features follow 512 exact observations; the process's largest memory so far.
    """
    agents, horizon = (40, 30) if quick else (200, 300)
    network = fb.network.ErdosRenyi(p=0.7, ttl="half-diameter")
    found = []
    for name in ("dist-ucb-kernel", "fed-ucb-kernel", "fed-ucb-eager"):
        algorithm = fb.algorithms.ALGORITHMS[name](width=0.1, likeness="estimated")
        warm_up(algorithm, fb.environments.HeterogeneousRBF(clients=20), 40, network=network)
        environment = fb.environments.HeterogeneousRBF(clients=agents)
        began = time.process_time()
        trace = fb.simulate(algorithm, environment, horizon, network=network)
        found.append(
            {
                "algorithm": name,
                "agents": agents,
                "rounds": horizon,
                "seconds": time.process_time() - began,
                "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
                "regret_per_agent": float(trace.regret[-1] / agents),
            }
        )
    return found


def main() -> None:
    """Run everything and print tables."""
    options = parser(__doc__).parse_args()
    with threadpool_limits(1):
        report(options.quick, options.json)


def report(quick: bool, file: Path | None) -> None:
    """Measure, and print tables."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    sizes = (250, 500) if quick else (250, 500, 1000, 2000, 4000)
    one_turn(40, 3)  # compiles
    turns = [one_turn(count, 5 if quick else 11) for count in sizes]
    table = Table(title=f"One observation and one decision among {ARMS} arms, d = {DIM}, CPU time")
    for column in ("known", "append", "decide", "invert anew", "decide", "append, times", "turn, times", "Gflop/s"):
        table.add_column(column, justify="right")
    for turn in turns:
        times = [f"{1e3 * turn[name]:,.2f} ms" for name in ("append", "decide", "anew_append", "anew_decide")]
        ratios = [f"{turn[name]:,.0f}" for name in ("ratio_append", "ratio_turn")]
        table.add_row(f"{turn['observations']:,}", *times, *ratios, f"{turn['decide_gflops']:.1f}")
    console.print(table)
    grows = np.log2(turns[-1]["append"] / turns[-2]["append"])
    console.print(
        f"from the last size but one to the last, twice as many, an observation costs 2^{grows:.2f} times as much"
    )
    companies, on_graphs = federations(quick), graphs(quick)
    shown = {
        "Federations on cosine, d = 4, K = 20, CPU time": companies,
        "On an Erdos-Renyi graph, CPU time": on_graphs,
    }
    for title, runs in shown.items():
        table = Table(title=title)
        for column in runs[0]:
            table.add_column(column, justify="right")
        for run in runs:
            table.add_row(*(f"{value:,.2f}" if isinstance(value, float) else str(value) for value in run.values()))
        console.print(table)
    keep({"turns": turns, "federations": companies, "graphs": on_graphs}, file)


if __name__ == "__main__":
    main()
