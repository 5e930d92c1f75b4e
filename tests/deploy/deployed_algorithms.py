"""Algorithms of the catalogue that talk to a server, at home in environments small enough to be deployed in a test."""

from __future__ import annotations

from typing import Any

import pytest

from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.algorithm import Algorithm
from fedbandits.environments import ENVIRONMENTS, Environment

STAR = sorted(name for name, kind in ALGORITHMS.items() if kind.about.topology == "star" and kind.about.says)
TYPICAL = (
    "dislinucb",
    "async-linucb",
    "hetofedbandit-e",
    "fedglb-newton",
    "fedglb-ucb",
    "rclb",
    "fedlsvi-dense",
    "fedlsvi-rare",
)
"""One of each way to talk, and"""
FIRST = ("dislinucb", "async-linucb", "fedglb-ucb")
"""those of them that stand for the others in `make test`."""
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
    "fedlinucb-private": {"epsilon": None},  # noise of a deployed agent is nobody's to repeat; see test_private_*
    "fed-gp-ucb": {"error": 0.5, "epsilon": None},
    "ldp-gp-ucb": {"error": 0.5, "epsilon": None},
    "dis-kernel-ucb": {"threshold": 1.0},
    "dis-kernel-features": {"threshold": 0.5, "count": 10},
    "neural-linear": {"width": 4, "steps": 3},
    "fn-ucb": {"width": 4, "steps": 3},
    "fn-ucb-less": {"width": 4, "steps": 3},
    "fed-go-ucb": {"width": 3, "rounds": 4, "explore": 10, "threshold": 0.5},
    "fed-go-ucb-ensemble": {"width": 3, "rounds": 4, "explore": 10, "threshold": 0.5, "members": 2},
    "one-go-ucb": {"width": 3, "rounds": 4, "explore": 10},
    "central-lsvi": {"width": 0.5},
    "fedlsvi-dense": {"threshold": 0.5, "width": 0.5},
    "fedlsvi-heterogeneous": {"threshold": 0.5, "width": 0.5},
    "fedlsvi-rare": {"threshold": 1.5, "width": 0.5},
    "private-fedlsvi": {"epsilon": None, "first": 8, "last": 0.6},
}
"""Parameters under which an algorithm talks several times within a few dozen steps."""
SMALL: dict[str, dict[str, Any]] = {
    "linear": {"clients": 6, "dim": 5, "arms": 7},
    "linear-fixed": {"clients": 6, "dim": 5, "arms": 7},
    "linear-shared": {"clients": 6, "dim": 5, "arms": 7, "shared": 3},
    "clustered-linear": {"clients": 6, "dim": 5, "arms": 7, "pool": 40, "clusters": 2},
    "logistic": {"clients": 6, "dim": 5, "arms": 7},
    "gap": {"clients": 6, "dim": 5, "arms": 7},
    "rkhs-mixture": {"clients": 6, "arms": 7},
    "cosine": {"clients": 6, "dim": 4, "arms": 5},
    "hartmann6": {"clients": 6, "arms": 7},
    "linear-mdp": {"clients": 6, "length": 4, "states": 7, "dim": 5, "arms": 4},
    "agent-mdp": {"clients": 6, "length": 4, "states": 7, "dim": 5, "arms": 4, "kinds": 2},
}


def talkative(name: str, **parameters: Any) -> Algorithm:
    """The algorithm with parameters under which it talks."""
    return ALGORITHMS[name](**(TALKATIVE.get(name, {}) | parameters))


def home(name: str, **parameters: Any) -> Environment:
    """A small version of the environment that the algorithm `name` is at home in."""
    environment = ALGORITHMS[name].about.environment
    return ENVIRONMENTS[environment](**(SMALL[environment] | parameters))


def typical(names: list[str]) -> list[Any]:
    """Parameters of a test: those that others stand for are left to `make test-thorough`, and those that are not of a
    kind of their own are tried in the slow part of the suite.
    """
    rest = {name: pytest.mark.thorough if name in TYPICAL else pytest.mark.slow for name in names if name not in FIRST}
    return [pytest.param(name, marks=rest.get(name, ())) for name in names]
