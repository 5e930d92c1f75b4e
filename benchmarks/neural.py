"""Speed of networks: `python -m benchmarks.neural [--json FILE] [--quick]`.

Decisions per second of CPU time of whole simulations, metering and environment included; the rate of training alone
beside what BLAS reaches for products of the same size; a straightforward loop in torch that does the work of FN-UCB's
released code (`loop_fn_ucb`; left out where torch is not installed), in the same process and turn by turn with ours, so
that both meet the same machine; and what letters weigh. One thread; compilation is not timed.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import fedbandits as fb
from benchmarks.command import keep, parser
from benchmarks.loop_fn_ucb import LoopFNUCB
from benchmarks.warming import warm_up
from fedbandits.contract.ledger import DIRECTIONS, UNITS
from fedbandits.contract.streams import seeds_of
from fedbandits.contract.wire import Wire
from fedbandits.models.features.tangent import TangentFeatures
from fedbandits.models.networks import Architecture, descend, gaussian
from fedbandits.models.networks.evaluation import BLOCK
from fedbandits.models.networks.tangent_spread import TangentSpread
from fedbandits.models.observations import Observations
from fedbandits.models.spreads import Spreads

WIDTH, STEPS = 20, 30
RUNS = (
    ("fn-ucb-less:profile=code-alias", 2, 500),
    ("fn-ucb-less:profile=code-alias", 5, 200),
    ("fn-ucb:profile=code-alias", 2, 500),
    ("fn-ucb:profile=code-alias", 5, 200),
    ("fn-ucb-less", 2, 500),
    ("fn-ucb-less:matrix=diagonal", 2, 500),
    ("neural-ucb", 1, 500),
    ("neural-ucb:matrix=diagonal", 1, 500),
    ("neural-ucb:tangent=beginning", 1, 200),
)


def cpu_seconds(work: Any, times: int) -> float:
    """The least of some measurements."""
    best = np.inf
    for _ in range(times):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def simulated(name: str, agents: int, horizon: int, times: int) -> dict[str, Any]:
    """Decisions per second of CPU time on `cosine`."""
    environment = fb.environments.Cosine(clients=agents)
    warm_up(name, environment, 140)  # everything, and blocks that are full
    seconds = cpu_seconds(lambda: fb.simulate(name, environment, horizon), times)
    return {"algorithm": name, "N": agents, "T": horizon, "decisions_per_cpu_second": agents * horizon / seconds}


def against_torch(name: str, agents: int, horizon: int) -> dict[str, Any] | None:
    """Decisions per second of CPU time of both, taking turns of a tenth of the horizon each."""
    if importlib.util.find_spec("torch") is None:
        return None
    environment = fb.environments.Cosine(clients=agents)
    warm_up(name, environment, 140)
    ours = fb.Simulation(name, environment, horizon)
    world = environment.world(horizon, seeds_of(0).world)
    looped = LoopFNUCB(agents, environment.dim, WIDTH)
    spent, regret = {"ours": 0.0, "torch": 0.0}, 0.0
    for first in range(0, horizon, horizon // 10):
        began = time.process_time()
        ours.run(horizon // 10)
        between = time.process_time()
        for step in range(first, first + horizon // 10):
            regret += looped.step(world, step)
        spent["ours"] += between - began
        spent["torch"] += time.process_time() - between
    return {
        "algorithm": name,
        "N": agents,
        "T": horizon,
        "ours": agents * horizon / spent["ours"],
        "torch": agents * horizon / spent["torch"],
        "times": spent["torch"] / spent["ours"],
        "regret of ours": float(ours.trace().regret[-1]) / agents,
        "regret of torch": regret / agents,
    }


def training(d: int, width: int, count: int, repeats: int) -> dict[str, Any]:
    """Gflop/s in the two products of each step of training, all other work of it included in the time, beside dgemm."""
    network, rng = Architecture(d, (width,), biased=True), np.random.default_rng(0)
    data = Observations(1, d, count)
    data.arms[:], data.rewards[:] = rng.standard_normal(data.arms.shape), rng.standard_normal(data.rewards.shape)
    theta, who, end = gaussian(network, rng, (1.0, 1.0))[None], np.zeros(1, dtype=np.int64), np.array([count])
    rest = {"steps": STEPS, "rate": 1e-3, "loss": 2.0, "decay": 0.1, "anchor": np.zeros(network.parameters)}

    def train() -> None:
        for _ in range(20):
            descend(network, theta.copy(), data, who, end, **rest)

    left, right, out = rng.random((width, d + 1)), rng.random((d + 1, BLOCK)), np.empty((width, BLOCK))

    def multiply() -> None:
        for _ in range(2000):
            np.dot(left, right, out)

    train()
    ours = 20 * STEPS * count * 4 * width * (d + 1) / cpu_seconds(train, repeats) / 1e9
    blas = 2000 * 2 * width * (d + 1) * BLOCK / cpu_seconds(multiply, repeats) / 1e9
    return {"d": d, "m": width, "observations": count, "gflops": ours, "dgemm": blas, "share": ours / blas}


def spread(d: int, width: int, count: int, repeats: int) -> dict[str, Any]:
    """Milliseconds for one decision of 7 arms and what it teaches, in the spaces of features and of observations."""
    network, rng = Architecture(d, (width,), biased=True), np.random.default_rng(0)
    theta, who = gaussian(network, rng, (1.0, 1.0)), np.zeros(1, dtype=np.int64)
    features, written = TangentFeatures(network, theta), Spreads(1, network.parameters, 1.0)
    factorised = TangentSpread(1, network, theta, ridge=1.0, divisor=1.0)
    for x in rng.standard_normal((count, 1, d)):
        factorised.learn(who, x)
    arms, snapshot = rng.standard_normal((1, 7, d)), factorised.state()

    def by_features() -> None:
        written.lengths(who, features.of(who, arms))
        written.learn(who, features.of(who, arms[:, :1])[:, 0])

    def by_observations() -> None:
        factorised.lengths(who, arms)
        factorised.learn(who, arms[:, 0])

    by_features()
    by_observations()
    factorised.load(snapshot)
    spent = [1e3 * cpu_seconds(work, 3 * repeats) for work in (by_features, by_observations)]
    sizes = {"d": d, "m": width, "p": network.parameters, "t": count}
    return sizes | {"features, ms": spent[0], "observations, ms": spent[1], "times": spent[0] / spent[1]}


def letters(name: str, d: int, packed: bool) -> dict[str, Any]:
    """Bytes for each agent and round, up and down."""
    simulation = fb.Simulation(f"{name}", fb.environments.Cosine(clients=2, dim=d, arms=2), 1, wire=Wire(packed=packed))
    simulation.run()
    up, down = (
        int(simulation.ledger.counts[DIRECTIONS.index(way), UNITS.index("bytes")]) / 2 for way in ("up", "down")
    )
    return {"algorithm": name, "p": WIDTH * (d + 2) + 1, "packed": packed, "up": up, "down": down}


def show(console: Console, title: str, entries: list[dict[str, Any]]) -> None:
    """A table of entries that have the same names."""
    table = Table(title=title)
    for column in entries[0] if entries else ():
        table.add_column(column.replace("_", " "), justify="right", no_wrap=column == "algorithm")
    for entry in entries:
        table.add_row(*(f"{value:,.4g}" if isinstance(value, float) else str(value) for value in entry.values()))
    console.print(table)


def main() -> None:
    """Run everything and print tables."""
    options = parser(__doc__, "fewer repetitions, shorter runs").parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    share, times = (5, 1) if options.quick else (1, 3)
    report: dict[str, list[dict[str, Any]]] = {}
    with threadpool_limits(limits=1, user_api="blas"):
        report["training"] = [training(10, WIDTH, count, 3 * times) for count in (100, 250, 500, 2000)]
        report["training"] += [training(63, 50, 500, 3 * times)]
        show(console, "Training, Gflop/s", report["training"])
        report["spread"] = [spread(63, 50, count, times) for count in (100, 500, 2000)]
        report["spread"] += [spread(10, WIDTH, count, times) for count in (50, 200)]
        show(console, "Tangents that stay: a decision of 7 arms", report["spread"])
        report["letters"] = [
            letters(name, 63, packed)
            for name in ("fn-ucb", "fn-ucb-less", "fn-ucb-less:matrix=diagonal", "fn-ucb-less|quantise")
            for packed in (False, True)
        ]
        show(console, "Bytes for each agent and round", report["letters"])
        report["simulations"] = [simulated(name, n, horizon // share, times) for name, n, horizon in RUNS]
        show(console, "Decisions per second of CPU time", report["simulations"])
        compared = [against_torch(name, n, horizon // share) for name, n, horizon in RUNS[:2]]
        report["against torch"] = [entry for entry in compared if entry is not None]
        show(console, "Beside the released code's work in torch", report["against torch"])
    keep(report, options.json)


if __name__ == "__main__":
    main()
