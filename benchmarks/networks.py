"""Speed and memory of agents on a network: `python -m benchmarks.networks [--json FILE] [--quick]`.

Against a straightforward simulation, message by message, of the same algorithm on the same graph (`loop_fed_ucb1`), in
one run; how cost grows with agents, hops and arms; and the largest run. One thread; compilation is not timed.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import fedbandits as fb
from benchmarks import loop_fed_ucb1
from benchmarks.apart import apart
from benchmarks.both_ways import both
from benchmarks.command import keep, parser
from benchmarks.warming import warm_up
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.catalogue import build
from fedbandits.graphs import NETWORKS


@dataclass(frozen=True)
class Case:
    """One simulation of `algorithm` on Bernoulli arms."""

    title: str
    algorithm: str
    agents: int
    arms: int
    horizon: int
    network: str
    conditions: dict[str, Any]
    parameters: dict[str, Any] = field(default_factory=dict)


def against_the_loop(quick: bool) -> dict[str, Any]:
    """Agent-rounds per second of both, n = 200, Erdos-Renyi p = 0.1, K = 5, two hops."""
    agents, arms, ttl = 200, 5, 2
    graph = fb.network.ErdosRenyi(p=0.1).graph(agents, np.random.SeedSequence(0))
    network = fb.network.Given.of(graph, ttl=ttl)
    means = np.random.default_rng(0).random(arms).tolist()
    rounds = 5 if quick else 30
    began = time.perf_counter()
    looped = loop_fed_ucb1.run(graph, means, rounds, ttl)
    loop = agents * rounds / (time.perf_counter() - began)
    environment = fb.environments.BernoulliArms(clients=agents, arms=arms)
    warm_up(fb.algorithms.FedUCB1(), environment, 20, network=network)
    trace = fb.simulate(fb.algorithms.FedUCB1(), environment, 200 if quick else 2_000, network=network)
    ours = fb.simulate(fb.algorithms.FedUCB1(), environment, rounds, network=network)
    assert int(ours.messages[-1]) == looped["crossed"], "the two do not send the same messages"
    return {"loop": loop, "fedbandits": trace.decisions_per_second, "ratio": trace.decisions_per_second / loop}


def both_ways(quick: bool) -> Iterator[dict[str, Any]]:
    """Microseconds of CPU time for a decision, step by step through Python and played by compiled functions, in turn
    in one process, best of three: n agents on an Erdos-Renyi graph of so many neighbours each, one hop, K = 5.
    """
    for words in ("fed-ucb1", "fed-ucb1-best", "cent-ucb1", "consensus-ucb", "fed-ucb1:mean=trimmed,order=2,raw=1"):
        entry: dict[str, Any] = {"algorithm": words}
        for n, neighbours, horizon in ((10, 10, 4000), (100, 10, 1000), (1_000, 10, 200), (200, 140, 400)):
            environment = fb.environments.BernoulliArms(clients=n, arms=5)
            network = fb.network.ErdosRenyi(p=min(1.0, neighbours / n), ttl=1)
            entry[f"n={n}, {neighbours} neighbours"] = both(
                words, environment, horizon, 1 if quick else 3, network=network
            )
        yield entry


def growing(quick: bool) -> Iterator[Case]:
    """Cost as agents, hops and arms grow, and what other algorithms cost at one size."""
    rounds = 50 if quick else 400
    base = {"ttl": 2, "m": 2}
    for n in (100, 1_000, 10_000):
        yield Case("agents", "fed-ucb1", n, 10, max(20, rounds * 1_000 // max(n, 1_000)), "barabasi-albert", base)
    for ttl in (0, 1, 2, 3, 4):
        yield Case("hops", "fed-ucb1", 1_000, 10, rounds, "barabasi-albert", base | {"ttl": ttl})
    for arms in (5, 20, 100):
        yield Case("arms", "fed-ucb1", 1_000, arms, rounds, "barabasi-albert", base)
    for name in ("ucb1", "thompson-beta", "kl-ucb", "fed-ucb1", "fed-ucb1-best", "cent-ucb1", "consensus-ucb", "charm"):
        yield Case("algorithms", name, 200, 5, rounds, "erdos-renyi", {"p": 0.1, "ttl": 2})
    yield Case("algorithms", "private-fed-ucb", 200, 5, rounds, "erdos-renyi", {"p": 0.1, "ttl": 2})
    for mean in ("trimmed", "median-of-means", "shortest-interval"):
        parameters = {"mean": mean, "order": 2.0, "raw": 1.0, "central": 0.25}
        yield Case(f"mean: {mean}", "fed-ucb1", 200, 5, rounds, "erdos-renyi", {"p": 0.1, "ttl": 1}, parameters)
    for fault in ({"loss": 0.1}, {"delay": 2.0, "delay_max": 10}, {"tampering": 0.01}, {"contamination": 0.1}):
        conditions = {"p": 0.1, "ttl": 2} | fault
        yield Case(f"faults: {next(iter(fault))}", "fed-ucb1", 200, 5, rounds // 2, "erdos-renyi", conditions)


def large(quick: bool) -> Iterator[Case]:
    """10^4 agents, K = 20, T = 1000, two hops."""
    for m in (2, 5):
        yield Case(
            f"large, m={m}", "fed-ucb1", 10_000, 20, 50 if quick else 1_000, "barabasi-albert", {"m": m, "ttl": 2}
        )


def measure(case: Case) -> dict[str, Any]:
    """Run a case, shortly for compilation and then fully for the record, in this process."""
    algorithm = build(ALGORITHMS, case.algorithm, case.parameters, "algorithm")
    small = build(NETWORKS, "ring", {k: v for k, v in case.conditions.items() if k not in ("m", "p")}, "network")
    warm_up(algorithm, fb.environments.BernoulliArms(clients=8, arms=case.arms), 3 * case.arms, network=small)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    network = build(NETWORKS, case.network, case.conditions, "network")
    environment = fb.environments.BernoulliArms(clients=case.agents, arms=case.arms)
    began = time.perf_counter()
    run = fb.Simulation(algorithm, environment, case.horizon, network=network)
    prepared = time.perf_counter() - began
    run.run()
    trace = run.trace()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "title": case.title,
        "algorithm": case.algorithm,
        "n": case.agents,
        "K": case.arms,
        "gamma": case.conditions["ttl"],
        "T": case.horizon,
        "agent_rounds_per_second": trace.decisions_per_second,
        "links_per_second": float(trace.messages[-1] / trace.seconds),
        "seconds": trace.seconds,
        "preparing_seconds": prepared,
        "megabytes": max(after - before, 0) / 1024,
    }


def show(console: Console, title: str, entries: list[dict[str, Any]]) -> None:
    """A table of measured cases."""
    table = Table(title=title)
    for column in ("case", "algorithm", "n", "K", "gamma", "T"):
        table.add_column(column, no_wrap=column == "algorithm")
    for column in ("agent-rounds/s", "links/s", "seconds", "preparing", "MB more"):
        table.add_column(column, justify="right")
    for entry in entries:
        words = [entry["title"], entry["algorithm"], *(str(entry[name]) for name in ("n", "K", "gamma", "T"))]
        rates = [f"{entry['agent_rounds_per_second']:,.0f}", f"{entry['links_per_second']:,.0f}"]
        times = [f"{entry['seconds']:.2f}", f"{entry['preparing_seconds']:.2f}", f"{entry['megabytes']:,.0f}"]
        table.add_row(*words, *rates, *times)
    console.print(table)


def main() -> None:
    """Run everything and print tables."""
    options = parser(__doc__).parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    report: dict[str, Any] = {"against the loop": against_the_loop(options.quick)}
    rates = report["against the loop"]
    console.print(
        f"n=200, Erdos-Renyi p=0.1, gamma=2: {rates['fedbandits']:,.0f} agent-rounds/s, message by message in Python "
        f"{rates['loop']:,.0f}: {rates['ratio']:,.0f} times as fast"
    )
    report["both ways"] = list(both_ways(options.quick))
    table = Table(title="µs per decision, step by step and played by compiled functions")
    for column in report["both ways"][0]:
        table.add_column(column, justify="left" if column == "algorithm" else "right")
    for entry in report["both ways"]:
        rest = [pair for name, pair in entry.items() if name != "algorithm"]
        table.add_row(entry["algorithm"], *(f"{pair['stepped']:.2f}, {pair['played']:.2f}" for pair in rest))
    console.print(table)
    for title, cases in (("How cost grows", growing(options.quick)), ("The largest run", large(options.quick))):
        report[title] = [apart(measure, case) for case in cases]
        show(console, title, report[title])
    keep(report, options.json)


if __name__ == "__main__":
    main()
