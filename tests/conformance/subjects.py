"""What the suite runs: every algorithm of the catalogue, on a small version of the environment it is at home in.

An algorithm added to the catalogue is covered at once. What the suite cannot know of it stands in the file of its
family in `conformance/families`; `test_families` fails for an algorithm whose family has none.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache, lru_cache
from typing import Any

import networkx as nx
import numpy as np
import pytest

import conformance.families
from conformance.family import Family, Parameters
from conformance.gossip import GossipLinUCB
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import About
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.world import Environment
from fedbandits.environments import ENVIRONMENTS
from fedbandits.graphs.network import Given, Network
from fedbandits.simulation.loop import posed
from fedbandits.testing.subject import Subject

REGISTRY: dict[str, type[Algorithm]] = ALGORITHMS | {GossipLinUCB.about.name: GossipLinUCB}
"""The catalogue, and a sample of agents that talk on a graph."""
NAMES = sorted(REGISTRY)
FAMILIES = sorted(module.name for module in pkgutil.iter_modules(conformance.families.__path__))
"""The families that have a file."""
TTL = 2
CLIENTS = 6
HORIZON = 40


def about(name: str) -> About:
    """The catalogue entry of an algorithm."""
    return REGISTRY[name].about


@cache
def family(called: str) -> Family:
    """The family of that name; one without a file has no settings."""
    if called not in FAMILIES:
        return Family(small={})
    found: Family = importlib.import_module(f"conformance.families.{called}").FAMILY
    return found


def family_of(name: str) -> Family:
    """The family of the algorithm `name`."""
    return family(about(name).family)


TALKING = [name for name in NAMES if about(name).says]
"""The algorithms that talk."""
STAR = [name for name in TALKING if about(name).topology == "star"]
"""Those that talk to a server."""


def talkative(name: str, **parameters: Any) -> Algorithm:
    """The algorithm with parameters under which it talks; skips the test where what it needs is not installed."""
    extra = about(name).extra
    if extra is not None:
        pytest.importorskip(extra, reason=f"{name} needs the extra {extra}")
    return REGISTRY[name](**(dict(family_of(name).talkative.get(name, {})) | parameters))


def confident(name: str) -> list[Parameters]:
    """One example of every way in which the algorithm can be confident."""
    said = family_of(name)
    numbers = [given for given in said.confident if not any(isinstance(value, str) for value in given.values())]
    return numbers if name in said.constant else list(said.confident)


@cache
def small() -> dict[str, Parameters]:
    """By name of an environment: parameters that make it small; one without an entry is made with its defaults."""
    return {name: parameters for called in FAMILIES for name, parameters in family(called).small.items()}


def home(name: str, **parameters: Any) -> Environment:
    """A small version of the environment that the algorithm `name` is at home in."""
    environment = about(name).environment
    return ENVIRONMENTS[environment](**(dict(small().get(environment, {})) | parameters))


def network_of(name: str, clients: int = CLIENTS, **conditions: Any) -> Network | None:
    """For agents that talk on a graph: a ring, wide enough that `TTL` hops do not reach everybody."""
    graph = nx.cycle_graph(clients)
    return Given.of(graph, **({"ttl": TTL} | conditions)) if about(name).topology == "graph" else None


@lru_cache(maxsize=4)  # checks of one algorithm follow each other, and share its runs
def subject(name: str) -> Subject:
    """The talkative algorithm `name` at home."""
    ignored = family_of(name).path_dependent.get(name, ())
    return Subject(talkative(name), home(name), network_of(name), HORIZON, seed=5, path_dependent=ignored)


def problem_of(name: str, horizon: int = HORIZON, **parameters: Any) -> Problem:
    """The problem that the home environment of `name` poses."""
    world = home(name, **parameters).world(horizon, np.random.SeedSequence(0))
    return posed(world, talkative(name), network_of(name, world.problem.agents))


def population(name: str, problem: Problem, n: int | None = None, seed: int = 0, **parameters: Any) -> Population:
    """A population of the talkative algorithm `name`, everybody by default."""
    n = problem.agents if n is None else n
    return talkative(name, **parameters).agents(problem, n, Streams(np.random.SeedSequence(seed), n))
