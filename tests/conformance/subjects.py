"""What the suite runs: every algorithm of the catalogue, on a small version of the environment it is at home in.

An algorithm added to `ALGORITHMS` is covered at once. It needs a line here only if its defaults stay quiet over a
short horizon (`TALKATIVE`), or if it has a setting that never talks (`SILENT`).
"""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np

from conformance.gossip import GossipLinUCB
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.arrays import State
from fedbandits.contract.catalogue import About
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments import ENVIRONMENTS, Environment
from fedbandits.graphs.network import Given, Network
from fedbandits.simulation.loop import Simulation, placed

REGISTRY: dict[str, type[Algorithm]] = ALGORITHMS | {GossipLinUCB.about.name: GossipLinUCB}
"""The catalogue, and a sample of agents that talk on a graph."""
NAMES = sorted(REGISTRY)
TTL = 2
CLIENTS = 6
HORIZON = 40
SCHEDULES = ("all", "round-robin", "random")
STEPS = 100_000
"""How long the suite's longest run is."""
REFITTING = frozenset({"n-ucb-glm", "one-ucb-glm"})
"""Algorithms that go over all they have ever observed in every single step, so that T steps cost T^2."""

SMALL: dict[str, dict[str, Any]] = {
    "linear": {"clients": CLIENTS, "dim": 5, "arms": 7},
    "linear-shared": {"clients": CLIENTS, "dim": 5, "arms": 7, "shared": 3},
    "clustered-linear": {"clients": CLIENTS, "dim": 5, "arms": 7, "pool": 40, "clusters": 2},
    "logistic": {"clients": CLIENTS, "dim": 5, "arms": 7},
    "bernoulli": {"clients": CLIENTS, "arms": 7},
    "gaussian": {"clients": CLIENTS, "arms": 7},
    "stable": {"clients": CLIENTS, "arms": 7},
}
"""Parameters that make an environment small; one without an entry is made with its defaults."""

TALKATIVE: dict[str, dict[str, Any]] = {
    "fedglb-ucb": {"threshold": 0.5, "scale": 0.1},
    "fedglb-newton": {"threshold": 0.5, "scale": 0.1},
    "dislinucb": {"threshold": 0.5},
    "async-linucb": {"gamma_up": 1.3, "gamma_down": 1.3},
    "async-linucb-am": {"gamma_up": 1.3, "gamma_down": 1.3},
    "oracle-clusters": {"threshold": 0.5},
    "hetofedbandit": {"threshold": 0.5, "explore": 4},
    "hetofedbandit-pq": {"threshold": 0.5, "explore": 4},
    "hetofedbandit-async": {"threshold": 0.5, "explore": 4},
    "hetofedbandit-dr": {"threshold": 0.5},
    "hetofedbandit-e": {"threshold": 0.5},
    "private-fed-ucb": {"schedule": 1.0},
    "dp-ucb-int": {"schedule": 1.0},
    "charm": {"lambda_scale": 0.05},
}
"""Parameters under which an algorithm that talks does so several times within `HORIZON`, in every schedule."""

SILENT: dict[str, dict[str, Any]] = {
    "fedglb-ucb": {"threshold": math.inf},
    "fedglb-newton": {"threshold": math.inf},
    "dislinucb": {"threshold": math.inf},
    "async-linucb": {"gamma_up": math.inf},
    "async-linucb-am": {"gamma_up": math.inf},
    "fedlinucb-async": {"growth": math.inf},
    "oracle-clusters": {"threshold": math.inf},
    "hetofedbandit": {"threshold": math.inf, "explore": 0},
    "hetofedbandit-pq": {"threshold": math.inf, "explore": 0},
    "hetofedbandit-async": {"threshold": math.inf, "explore": 0},
    "hetofedbandit-dr": {"threshold": math.inf},
    "hetofedbandit-e": {"threshold": math.inf},
}
"""Parameters that switch communication off."""


def about(name: str) -> About:
    """The catalogue entry of an algorithm."""
    return REGISTRY[name].about


def talks(name: str) -> bool:
    """Whether the algorithm says anything at all."""
    return bool(about(name).says)


TALKING = [name for name in NAMES if talks(name)]
"""The algorithms that talk."""
STAR = [name for name in TALKING if about(name).topology == "star"]
"""Those that talk to a server."""


def steps_of(name: str) -> int:
    """How many steps of `name` are affordable in the longest run: `STEPS`, or a fortieth where T steps cost T^2."""
    return STEPS // 40 if name in REFITTING else STEPS


def widths_of(name: str) -> list[str | float]:
    """One example of every kind of width that `name` takes."""
    return ["theory", 0.3] if about(name).family == "generalized" else ["theory", "loose", 0.3]


def talkative(name: str, **parameters: Any) -> Algorithm:
    """The algorithm with parameters under which it talks."""
    return REGISTRY[name](**(TALKATIVE.get(name, {}) | parameters))


def home(name: str, **parameters: Any) -> Environment:
    """A small version of the environment that the algorithm `name` is at home in."""
    environment = about(name).environment
    return ENVIRONMENTS[environment](**(SMALL.get(environment, {}) | parameters))


def network_of(name: str, clients: int = CLIENTS, **conditions: Any) -> Network | None:
    """For agents that talk on a graph: a ring, wide enough that `TTL` hops do not reach everybody."""
    graph = nx.cycle_graph(clients)
    return Given.of(graph, **({"ttl": TTL} | conditions)) if about(name).topology == "graph" else None


def simulation(name: str, seed: int = 0, horizon: int = HORIZON, **environment: Any) -> Simulation:
    """A run of the talkative algorithm `name` at home."""
    return Simulation(talkative(name), home(name, **environment), horizon, seed, network=network_of(name))


def problem_of(name: str, horizon: int = HORIZON, **parameters: Any) -> Problem:
    """The problem that the home environment of `name` poses."""
    problem = home(name, **parameters).world(horizon, np.random.SeedSequence(0)).problem
    return placed(problem, talkative(name), network_of(name, problem.agents))


def population(name: str, problem: Problem, n: int | None = None, seed: int = 0, **parameters: Any) -> Any:
    """A population of the talkative algorithm `name`, everybody by default."""
    n = problem.agents if n is None else n
    return talkative(name, **parameters).agents(problem, n, Streams(np.random.SeedSequence(seed), n))


def same(left: State, right: State) -> bool:
    """Whether two snapshots agree in names, types, shapes and every bit."""
    return left.keys() == right.keys() and all(
        left[key].dtype == right[key].dtype
        and left[key].shape == right[key].shape
        and left[key].tobytes() == right[key].tobytes()
        for key in left
    )
