"""The round loop: arms, choices, rewards, learning, talk."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from threadpoolctl import threadpool_limits

from fedbandits.contract.algorithm import Algorithm, Bounded, sizes_of
from fedbandits.contract.arrays import Array, BoolArray, FloatArray, State
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.ledger import DIRECTIONS, UNITS, Ledger
from fedbandits.contract.population import Agents, Confident, Peers, Population, Portrayed
from fedbandits.contract.portrait import EDGES, TRUTH, links
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.state import Stateful
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire
from fedbandits.contract.world import Armed, Drifting, Environment, Parametric
from fedbandits.graphs.network import as_network
from fedbandits.privacy.accountant import Private
from fedbandits.simulation.trace import Privacy, Trace
from fedbandits.transport.carriers import InProcess, hold
from fedbandits.transport.relay import Relay, relay_for

if TYPE_CHECKING:
    import networkx as nx

    from fedbandits.graphs.network import Network

Progress = Callable[[int], None]
"""Told the number of steps done, a few times a second at most."""

_PROGRESS_SECONDS = 0.1
_COVERAGE_CHECKS = 100
"""How often in a run confidence ellipsoids are compared with the truth."""


def simulate(
    algorithm: Algorithm,
    environment: Environment,
    horizon: int,
    seed: int = 0,
    *,
    network: Network | nx.Graph[int] | None = None,
    wire: Wire | None = None,
    coverage: bool = False,
    theory: bool = False,
    progress: Progress | None = None,
) -> Trace:
    """Run `algorithm` in `environment` for `horizon` steps.

    `seed` fixes the problem instance, the arms, the noise and the algorithm's own draws, each by a stream of its own:
    two algorithms under one seed face the same arms and, for the same choice, the same noise. `network` is for agents
    that talk to each other: one of `fedbandits.network`, or a networkx graph, on which messages then live for one hop.
    `wire=Wire(packed=True)` sends symmetric matrices as triangles. `coverage=True` checks now and then whether the
    agents' confidence ellipsoids contain the truth; `theory=True` evaluates what theory says of the regret at the
    horizon, for algorithms of which it says anything.

    >>> import fedbandits as fb
    >>> env = fb.environments.Linear(clients=5, dim=4, arms=6)
    >>> trace = fb.simulate(fb.algorithms.DisLinUCB(threshold=1.0), env, horizon=100, seed=0)
    >>> trace.regret.shape, bool(trace.messages[-1] == trace.syncs[-1] * 2 * 5)
    ((100,), True)
    """
    simulation = Simulation(
        algorithm, environment, horizon, seed, network=network, wire=wire, coverage=coverage, theory=theory
    )
    simulation.run(progress=progress)
    return simulation.trace()


class Simulation(Stateful):
    """A run that can be stopped after any step, saved by `state`, loaded elsewhere and continued.

    `run(steps)` advances; the run is the same however it is divided.
    """

    keeps: ClassVar[tuple[str, ...]] = (
        "at",
        "regret",
        "reward",
        "chance",
        "decisions",
        "syncs",
        "counts",
        "by_agent",
        "covered",
        "coverage",
        "epsilon",
        "ledger",
    )

    def __init__(
        self,
        algorithm: Algorithm,
        environment: Environment,
        horizon: int,
        seed: int = 0,
        *,
        network: Network | nx.Graph[int] | None = None,
        wire: Wire | None = None,
        coverage: bool = False,
        theory: bool = False,
    ) -> None:
        if horizon < 1:
            raise ConfigError(f"horizon: must be at least 1 (got {horizon})")
        if seed < 0:
            raise ConfigError(f"seed: must not be negative (got {seed})")
        world_seed, agent_seed, graph_seed, fate_seed = np.random.SeedSequence(seed).spawn(4)
        self.world = environment.world(horizon, world_seed)
        problem = self.world.problem
        n = problem.agents
        place = None if network is None else as_network(network)
        if place is None and algorithm.about.topology == "graph":
            raise ConfigError(
                f"{algorithm.about.name} talks on a graph: give network=, one of fedbandits.network or a networkx "
                f"graph of {n} nodes"
            )
        problem = placed(problem, algorithm, place, graph_seed)
        self.agents = algorithm.agents(problem, n, Streams(agent_seed, n))
        self.server = algorithm.server(problem, n)
        self.ledger = Ledger()
        says = (wire or Wire()).speaking(algorithm.about.says, sizes_of(algorithm, problem))
        if isinstance(self.agents, Peers):
            assert place is not None, f"the topology of {algorithm.about.name} is graph"
            absences = self.world.turn(0).reachable is not None
            self._relay: Relay | None = relay_for(problem, place.faults, absences, self.ledger, says, fate_seed)
        else:
            self._relay = None
            self._carrier = InProcess(self.agents, self.ledger, says)
        self.horizon = horizon
        self.at = np.zeros((), dtype=np.int64)
        self.regret = np.zeros(horizon)
        self.reward = np.zeros(horizon)
        self.chance = np.zeros(horizon)
        self.decisions = np.zeros(horizon, dtype=np.int64)
        self.syncs = np.zeros(horizon, dtype=np.int64)
        self.counts = np.zeros((horizon, len(DIRECTIONS), len(UNITS)), dtype=np.int64)
        self.by_agent = np.zeros(n)
        self.covered = np.ones(n, dtype=np.bool_)
        self.coverage = np.full(horizon, np.nan)
        self.epsilon = np.full(horizon, np.nan)
        self._algorithm = algorithm
        self._problem = problem
        self._watched = coverage and isinstance(self.agents, Confident) and isinstance(self.world, Parametric)
        self._check_every = max(1, horizon // _COVERAGE_CHECKS)
        self._theory = theory
        self._private = isinstance(self.agents, Private)
        self._seconds = 0.0

    def run(self, steps: int | None = None, progress: Progress | None = None) -> None:
        """Advance by `steps` steps, or to the horizon."""
        start = int(self.at)
        end = self.horizon if steps is None else min(self.horizon, start + steps)
        began = told = time.perf_counter()
        # matrices here are small: a second thread only waits, and runs in parallel processes would fight for cores
        with threadpool_limits(limits=1, user_api="blas"):
            for step in range(start, end):
                self._step(step)
                if progress is not None and time.perf_counter() - told > _PROGRESS_SECONDS:
                    progress(step + 1)
                    told = time.perf_counter()
        self._seconds += time.perf_counter() - began
        if progress is not None:
            progress(end)

    def trace(self) -> Trace:
        """What has happened so far."""
        done = slice(0, int(self.at))
        return Trace(
            regret=np.cumsum(self.regret[done]),
            reward=np.cumsum(self.reward[done]),
            regret_by_client=self.by_agent.copy(),
            chance=np.cumsum(self.chance[done]),
            decisions=np.cumsum(self.decisions[done]),
            syncs=self.syncs[done].copy(),
            counts=self.counts[done].copy(),
            seconds=self._seconds,
            coverage=self.coverage[done].copy(),
            portrait=self._portrait(),
            epsilon=self.epsilon[done].copy(),
            privacy=Privacy(self.agents.spent(), self.agents.delta) if isinstance(self.agents, Private) else None,
            bounds=self._bounds(),
        )

    def state(self) -> State:
        """A snapshot of the run, the agents and the server."""
        nested = {
            f"{part}.{name}": array for part, holder in self._parts().items() for name, array in holder.state().items()
        }
        return super().state() | nested

    def load(self, state: Mapping[str, Array]) -> None:
        """Continue the run that `state` was taken from, under the same algorithm, environment and seed."""
        before = self.state()
        try:
            self._load(state)
        except Exception:
            self._load(before)
            raise

    def _load(self, state: Mapping[str, Array]) -> None:
        parts = self._parts()
        held: dict[str, dict[str, Array]] = {part: {} for part in ("", *parts)}
        for name, array in state.items():
            part, dot, rest = name.partition(".")
            if dot and part in parts:
                held[part][rest] = array
            else:
                held[""][name] = array
        for part, holder in parts.items():
            holder.load(held[part])
        super().load(held[""])

    def _portrait(self) -> State:
        shown: State = {}
        for side in (self.agents, self.server):
            if isinstance(side, Portrayed):
                shown |= side.portrait()
        if isinstance(self.server, Portrayed):
            clusters = self.world.problem.clusters
            if isinstance(self.world, Drifting) and self.at > 0:
                clusters = self.world.clusters_in(int(self.at) - 1)
            shown |= {} if clusters is None else {TRUTH: np.array(clusters)}
        if self._relay is not None and self._problem.network is not None:
            shown[EDGES] = links(self._problem.network)
        return shown

    def _bounds(self) -> dict[str, float]:
        if not (self._theory and isinstance(self._algorithm, Bounded) and isinstance(self.world, Armed)):
            return {}
        bounds = self._algorithm.bounds(self._problem, self.world.means)
        return {"upper": bounds.upper, "lower": bounds.lower}

    def _parts(self) -> dict[str, Population | Server | Relay]:
        """What keeps a state of its own beside the run's."""
        parts: dict[str, Population | Server | Relay | None] = {
            "agents": self.agents,
            "server": self.server,
            "relay": self._relay,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def _step(self, step: int) -> None:
        turn = self.world.turn(step)
        picks = self.agents.choose(turn.who, turn.arms)
        outcome = self.world.pay(step, picks)
        self.agents.learn(turn.who, turn.arms, picks, outcome.rewards)
        if self._relay is not None:
            self._relay.round(cast(Peers, self.agents), turn.who, step, turn.reachable)
        elif self.server is not None:
            self._carrier.reachable = turn.reachable
            calling = cast(Agents, self.agents).calling()
            if turn.reachable is not None:
                calling = calling & turn.reachable
            hold(self.server, np.flatnonzero(calling), self._carrier)
        self.regret[step] = outcome.regrets.sum()
        self.reward[step] = outcome.rewards.sum()
        self.chance[step] = outcome.chance.sum()
        self.decisions[step] = len(turn.who)
        self.syncs[step] = self.ledger.syncs
        self.counts[step] = self.ledger.counts
        self.by_agent[turn.who] += outcome.regrets
        if self._watched:
            if (step + 1) % self._check_every == 0:
                self.covered &= covers(cast(Confident, self.agents), cast(Parametric, self.world).theta)
            self.coverage[step] = self.covered.mean()
        if self._private:
            self.epsilon[step] = cast(Private, self.agents).spent().max()
        self.at[...] = step + 1


def placed(
    problem: Problem, algorithm: Algorithm, network: Network | None, seed: np.random.SeedSequence | None = None
) -> Problem:
    """`problem` on the graph that `network` draws by `seed`, for the messages of `algorithm`."""
    if network is None:
        return problem
    graph = network.graph(problem.agents, seed or np.random.SeedSequence(0))
    life, hops = network.life(graph), algorithm.about.hops
    return replace(
        problem,
        network=graph,
        ttl=life if hops is None else min(life, hops),
        contamination=max(problem.contamination, network.faults.contamination * network.faults.byzantine),
    )


def covers(agents: Confident, theta: FloatArray) -> BoolArray:
    """(n,) whose ellipsoid contains its true parameter, `theta` (n, d) or (1, d)."""
    centre, matrix, width = agents.ellipsoids()
    gap = centre - theta
    return np.asarray(np.einsum("ni,nij,nj->n", gap, matrix, gap) <= width**2)
