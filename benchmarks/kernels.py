"""Speed of the compiled kernels: `python -m benchmarks.kernels [--json FILE] [--quick]`.

One thread throughout. Rivals are timed in turns of several steps within one run, so that a slow
spell of the machine hits them alike and none finds its numbers swept from the cache by another; a
time is the median over its repetitions, with the minimum beside it as a measure of the noise. A
step is one decision of every agent: choose among K given arms, then learn from the reward of the
chosen one. Arms and models of the kernels begin at cache lines (`kernels.aligned`).
"""

# ruff: noqa: E402 (threads must be limited before numpy is imported)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import importlib.metadata
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import fedbandits as fb
from benchmarks.command import keep, machine, parser
from benchmarks.loop_linucb import LoopLinUCB
from benchmarks.loop_linucb import step as loop_step
from fedbandits.contract.streams import Streams
from fedbandits.linalg import kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N, ARMS, D = 100, 20, 20
SETS = 4
"""Sets of arms drawn beforehand and offered in turn."""


class Offers:
    """Arms in both layouts, rewards and names of all agents."""

    def __init__(self, n: int, arms: int, d: int, sets: int = SETS) -> None:
        rng = np.random.default_rng(0)
        self.lanes = [kernels.aligned((n, d, arms)) for _ in range(sets)]
        for lanes in self.lanes:
            rng.standard_normal(out=lanes)
            lanes /= np.sqrt(d)
        self.rewards = [rng.standard_normal((n, arms)) for _ in range(sets)]
        self.rows = np.arange(n)

    def rowwise(self, k: int) -> Floats:
        """Arms (n, K, d) in the order a script would make them."""
        return np.ascontiguousarray(self.lanes[k].transpose(0, 2, 1))


class Kernels:
    """A population on the compiled kernels."""

    def __init__(self, n: int, d: int) -> None:
        self.inverse, self.gram = kernels.aligned((n, d, d)), kernels.aligned((n, d, d))
        self.inverse[:] = np.eye(d)
        self.theta, self.moment = np.zeros((n, d)), np.zeros((n, d))
        self.logdet, self.count = np.zeros(n), np.zeros(n)
        self.width, self.who = np.ones(n), np.arange(n)

    def choose(self, lanes: Floats) -> Ints:
        return kernels.pick_optimistic(self.inverse, self.theta, self.width, self.who, lanes)

    def learn(self, lanes: Floats, picks: Ints, y: Floats) -> None:
        kernels.observe(
            self.inverse,
            self.theta,
            self.logdet,
            self.gram,
            self.moment,
            self.count,
            self.who,
            lanes,
            picks,
            y,
        )


class Batched:
    """A population on batched numpy: no Python loop, Sherman-Morrison instead of inverses."""

    def __init__(self, n: int, d: int) -> None:
        self.inverse = np.tile(np.eye(d), (n, 1, 1))
        self.gram = np.zeros((n, d, d))
        self.theta, self.moment = np.zeros((n, d)), np.zeros((n, d))
        self.logdet, self.count = np.zeros(n), np.zeros(n)
        self.rows = np.arange(n)

    def choose(self, arms: Floats) -> Ints:
        half = np.matmul(arms, self.inverse)
        spread = np.einsum("nkd,nkd->nk", half, arms)
        mean = np.matmul(arms, self.theta[:, :, None])[:, :, 0]
        picks: Ints = np.argmax(mean + np.sqrt(spread), axis=1)
        return picks

    def learn(self, arms: Floats, picks: Ints, y: Floats) -> None:
        x = arms[self.rows, picks]
        u = np.matmul(self.inverse, x[:, :, None])[:, :, 0]
        q = np.einsum("nd,nd->n", x, u)
        error = y - np.einsum("nd,nd->n", self.theta, x)
        self.theta += u * (error / (1.0 + q))[:, None]
        scaled = u / np.sqrt(1.0 + q)[:, None]
        self.inverse -= scaled[:, :, None] * scaled[:, None, :]
        self.logdet += np.log1p(q)
        self.gram += x[:, :, None] * x[:, None, :]
        self.moment += y[:, None] * x
        self.count += 1.0


def step_flops(arms: int, d: int) -> int:
    """Floating-point operations of one decision, every symmetric matrix counted by its half.

    Scores: K (d (d+1) / 2 + 2 d) multiply-adds (quadratic form and mean). Learning: d^2 for
    u = V x, 3 d for q, the error and theta, d (d+1) / 2 each for V and the gram matrix, d for the
    moment. A multiply-add counts as two.
    """
    triangle = d * (d + 1) // 2
    return 2 * (arms * (triangle + 2 * d) + d * d + 2 * triangle + 4 * d)


def timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def summary(times: list[float]) -> dict[str, float]:
    return {"median": statistics.median(times), "min": min(times), "repetitions": len(times)}


def micro(times: dict[str, float]) -> str:
    return f"{1e6 * times['median']:,.1f} ({1e6 * times['min']:,.1f})"


def gemm_rate(size: int = 512) -> float:
    """Operations per second of a matrix product, the best of a few."""
    a = np.random.default_rng(0).standard_normal((size, size))
    out = np.empty_like(a)
    return 2.0 * size**3 / min(timed(lambda: np.matmul(a, a, out=out)) for _ in range(4))


class Contest:
    """The step of N agents: loop, batched numpy and kernels on the same arms and rewards."""

    def __init__(self) -> None:
        self.offers = Offers(N, ARMS, D)
        transposed = [lanes.transpose(0, 2, 1) for lanes in self.offers.lanes]
        rowwise = [self.offers.rowwise(k) for k in range(SETS)]
        self.arms = {"loop": rowwise, "loop, transposed arms": transposed}
        self.agents = {name: [LoopLinUCB(D) for _ in range(N)] for name in self.arms}
        self.batched, self.ours = Batched(N, D), Kernels(N, D)

    def loop(self, name: str, k: int) -> tuple[list[int], float]:
        """Picks and seconds; as the agents choose and learn one by one, rewards are looked up
        in between, which is nothing beside a matrix inverse."""
        start = time.perf_counter()
        picks = loop_step(self.agents[name], self.arms[name][k], self.offers.rewards[k])
        return picks, time.perf_counter() - start

    def population(self, name: str, k: int) -> tuple[list[int], float, float]:
        """Picks, seconds to choose, seconds to learn."""
        model: Kernels | Batched = self.ours if name == "kernels" else self.batched
        arms = self.offers.lanes[k] if name == "kernels" else self.arms["loop"][k]
        start = time.perf_counter()
        picks = model.choose(arms)
        chosen = time.perf_counter() - start
        y = self.offers.rewards[k][self.offers.rows, picks]
        start = time.perf_counter()
        model.learn(arms, picks, y)
        return picks.tolist(), chosen, time.perf_counter() - start


def ratios(rounds: int) -> dict[str, Any]:
    contest = Contest()
    for turn in range(2 * SETS):  # compiles, and checks that all choose the same arms
        k = turn % SETS
        picks = contest.population("kernels", k)[0]
        assert contest.population("batched numpy", k)[0] == picks
        assert all(contest.loop(name, k)[0] == picks for name in contest.arms)
    times: dict[str, list[float]] = {
        name: [] for name in (*contest.arms, "batched numpy", "kernels", "choose", "learn")
    }
    rates = []
    for _ in range(rounds):
        rates.append(gemm_rate())
        for turn in range(8 * SETS):
            _, choose, learn = contest.population("kernels", turn % SETS)
            times["choose"].append(choose)
            times["learn"].append(learn)
            times["kernels"].append(choose + learn)
        for turn in range(4 * SETS):
            _, choose, learn = contest.population("batched numpy", turn % SETS)
            times["batched numpy"].append(choose + learn)
        for name in contest.arms:
            times[name] += [contest.loop(name, k)[1] for k in range(SETS)]
    flops = N * step_flops(ARMS, D)
    rate = statistics.median(rates)
    result: dict[str, Any] = {name: summary(values) for name, values in times.items()}
    result["limit"] = {
        "flops": flops,
        "dgemm_flops_per_second": rate,
        "median": flops / rate,
        "min": flops / max(rates),
    }
    # A long step is more often interrupted than a short one: on a busy machine the ratio of minima
    # is the one to trust.
    for kind, key in (("median", "ratios"), ("min", "ratios_of_minima")):
        base = result["kernels"][kind]
        names = (*contest.arms, "batched numpy", "limit")
        result[key] = {name: result[name][kind] / base for name in names}
    return result


def show_ratios(console: Console, result: dict[str, Any]) -> None:
    table = Table(title=f"Choose and learn, n = {N} agents, K = {ARMS} arms, d = {D}")
    table.add_column("way", no_wrap=True)
    table.add_column("µs a step (min)", justify="right")
    table.add_column("times the kernels", justify="right")
    table.add_column("(of minima)", justify="right")
    labels = {
        "loop": "loop, numpy.linalg.inv",
        "loop, transposed arms": "the same, arms as (n, d, K)",
        "batched numpy": "batched numpy",
        "kernels": "kernels",
        "choose": "  of which choose",
        "learn": "  of which learn",
        "limit": "limit: flops at dgemm rate",
    }
    for name, label in labels.items():
        both = [result[key].get(name) for key in ("ratios", "ratios_of_minima")]
        shown = ["" if ratio is None else f"{ratio:.2f}" for ratio in both]
        table.add_row(label, micro(result[name]), *shown)
    console.print(table)
    limit = result["limit"]
    console.print(
        f"A step takes {limit['flops']:,} flops (symmetric matrices by half), dgemm runs at "
        f"{limit['dgemm_flops_per_second'] / 1e9:.1f} Gflop/s on one thread."
    )


def free_memory() -> float:
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return 2e9


def growth(quick: bool) -> Iterator[dict[str, Any]]:
    """Time of the kernel pair as one of n, d and K varies, the others as in `ratios`."""
    plan = [("n", n, n, ARMS, D) for n in (100, 1_000, 10_000, 100_000)]
    plan += [("d", d, N, ARMS, d) for d in (5, 10, 20, 50, 100)]
    plan += [("K", arms, N, arms, D) for arms in (5, 10, 20, 50, 100, 200, 500, 1_000)]
    for axis, value, n, arms, d in plan:
        entry: dict[str, Any] = {"axis": axis, "value": value, "n": n, "K": arms, "d": d}
        # Two matrices an agent and the arms, with some room.
        if 8.0 * n * d * (2 * d + 2 * arms) > 0.7 * free_memory():
            yield entry | {"skipped": "not enough memory"}
            continue
        offers = Offers(n, arms, d, sets=1)
        ours, lanes = Kernels(n, d), offers.lanes[0]
        times: list[float] = []
        budget = 0.3 if quick else 1.5
        ours.learn(lanes, ours.choose(lanes), np.zeros(n))
        began = time.perf_counter()
        while len(times) < 5 or time.perf_counter() - began < budget:
            start = time.perf_counter()
            picks = ours.choose(lanes)
            middle = time.perf_counter()
            y = offers.rewards[0][offers.rows, picks]
            resumed = time.perf_counter()
            ours.learn(lanes, picks, y)
            times.append((middle - start + time.perf_counter() - resumed) / n)
        yield entry | summary(times) | {"flops": step_flops(arms, d)}


def show_growth(console: Console, entries: list[dict[str, Any]]) -> None:
    table = Table(title="Growth of the time of one decision (choose and learn)")
    for title in ("varied", "n", "K", "d", "µs a decision (min)", "Gflop/s"):
        table.add_column(title, justify="right")
    last = None
    for entry in entries:
        if last is not None and entry["axis"] != last:
            table.add_section()
        last = entry["axis"]
        shape = (entry["axis"], f"{entry['n']:,}", f"{entry['K']:,}", str(entry["d"]))
        if "skipped" in entry:
            table.add_row(*shape, entry["skipped"], "")
            continue
        spent = f"{1e6 * entry['median']:,.3f} ({1e6 * entry['min']:,.3f})"
        table.add_row(*shape, spent, f"{entry['flops'] / entry['median'] / 1e9:.1f}")
    console.print(table)


# --- one agent, beside other libraries

PEER_ARMS, PEER_D = 10, 10


def ours_shared() -> Callable[[], None]:
    """One model for all arms, which differ in their features, by the public interface with all its checks."""
    problem = fb.Problem(agents=1, dim=PEER_D, arms=PEER_ARMS, horizon=10**6)
    agent = fb.algorithms.IndependentLinUCB(width=1.0).agents(problem, 1, Streams(np.random.SeedSequence(0), 1))
    arms = Offers(1, PEER_ARMS, PEER_D, sets=1).lanes[0].transpose(0, 2, 1)
    me, y = np.zeros(1, np.int64), np.ones(1)

    def decide() -> None:
        agent.learn(me, arms, agent.choose(me, arms), y)

    return decide


def ours_disjoint() -> Callable[[], None]:
    """One model per arm on a common context, which is what the peers compute."""
    models = Kernels(PEER_ARMS, PEER_D)
    context = np.random.default_rng(0).standard_normal((1, PEER_D, 1))
    lanes = np.repeat(context, PEER_ARMS, axis=0)
    none, y = np.zeros(1, np.int64), np.ones(1)

    def decide() -> None:
        scores = kernels.scores_optimistic(models.inverse, models.theta, models.width, models.who, lanes)
        models.who = np.array([scores.argmax()])
        models.learn(context, none, y)
        models.who = everyone

    everyone = models.who
    return decide


def river_linucb() -> Callable[[], None]:
    from river import bandit

    policy = bandit.LinUCBDisjoint(alpha=1.0, seed=1)
    arms = list(range(PEER_ARMS))
    drawn = np.random.default_rng(0).standard_normal(PEER_D)
    context = {str(i): float(value) for i, value in enumerate(drawn)}

    def decide() -> None:
        arm = policy.pull(arms, context=context)
        policy.update(arm, context, 1.0)

    return decide


def contextualbandits_linucb() -> Callable[[], None]:
    from contextualbandits.online import LinUCB

    model = LinUCB(nchoices=PEER_ARMS, alpha=1.0, beta_prior=None, random_state=1)
    context = np.random.default_rng(0).standard_normal((1, PEER_D))
    reward = np.ones(1)
    model.partial_fit(context, np.zeros(1, dtype=int), reward)

    def decide() -> None:
        arm = model.predict(context)
        model.partial_fit(context, arm, reward)

    return decide


def mabwiser_linucb() -> Callable[[], None]:
    from mabwiser.mab import MAB, LearningPolicy

    model = MAB(list(range(PEER_ARMS)), LearningPolicy.LinUCB(alpha=1.0, l2_lambda=1.0), seed=1)
    context = np.random.default_rng(0).standard_normal((1, PEER_D))
    first = np.random.default_rng(1).standard_normal((PEER_ARMS, PEER_D))
    model.fit(np.arange(PEER_ARMS), np.ones(PEER_ARMS), first)

    def decide() -> None:
        arm = model.predict(context)
        model.partial_fit([arm], [1.0], context)

    return decide


def peers(quick: bool) -> list[dict[str, Any]]:
    contestants: list[tuple[str, str | None, Callable[[], Callable[[], None]]]] = [
        ("fedbandits IndependentLinUCB, n = 1", None, ours_shared),
        ("fedbandits kernels, one model per arm", None, ours_disjoint),
        ("river LinUCBDisjoint", "river", river_linucb),
        ("contextualbandits LinUCB", "contextualbandits", contextualbandits_linucb),
        ("mabwiser LinUCB", "mabwiser", mabwiser_linucb),
    ]
    entries = []
    for name, package, build in contestants:
        version = None
        if package is not None:
            try:
                version = importlib.metadata.version(package)
                decide = build()
                decide()
            except ImportError as error:
                missing = isinstance(error, importlib.metadata.PackageNotFoundError)
                reason = "not installed" if missing else f"does not load: {error}"
                entries.append({"name": name, "skipped": reason})
                continue
        else:
            decide = build()
            decide()
        times: list[float] = []
        began = time.perf_counter()
        while len(times) < 20 or time.perf_counter() - began < (0.3 if quick else 2.0):
            times.append(timed(decide))
        spent = summary(times)
        named: dict[str, Any] = {"name": name, "version": version}
        entries.append(named | {"decisions_per_second": 1 / spent["median"]} | spent)
    return entries


def show_peers(console: Console, entries: list[dict[str, Any]]) -> None:
    table = Table(title=f"One agent, K = {PEER_ARMS} arms, d = {PEER_D}: choose and learn")
    table.add_column("library")
    table.add_column("decisions a second", justify="right")
    table.add_column("µs (min)", justify="right")
    for entry in entries:
        if "skipped" in entry:
            table.add_row(entry["name"], entry["skipped"], "")
            continue
        name = " ".join(filter(None, (entry["name"], entry["version"])))
        table.add_row(name, f"{entry['decisions_per_second']:,.0f}", micro(entry))
    console.print(table)
    console.print("The other libraries keep one model per arm, on a context common to all arms.")


def main() -> None:
    options = parser(__doc__, "fewer repetitions").parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    with threadpool_limits(1):
        console.print(", ".join(f"{key} {value}" for key, value in machine().items()))
        report: dict[str, Any] = {"ratios": ratios(10 if options.quick else 60)}
        show_ratios(console, report["ratios"])
        report["growth"] = list(growth(options.quick))
        show_growth(console, report["growth"])
        report["peers"] = peers(options.quick)
        show_peers(console, report["peers"])
    keep(report, options.json)


if __name__ == "__main__":
    main()
