"""Positive definiteness survives 10^5 steps of ill-conditioned arms (families say where fewer are affordable).

The costliest take a tenth of that, and all of it only in the slow part of the suite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from conformance.subjects import NAMES, REGISTRY, STAR, family_of, population, problem_of, talkative
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire
from fedbandits.transport.carriers import InProcess, hold

STEPS = 100_000
CHECKS = 10
SHARE = 20
"""The normal suite takes one step of so many."""


def distinct() -> list[str]:
    """One algorithm for every way to learn and answer among those that keep an inverse; those that talk first."""
    found: dict[tuple[object, object], str] = {}
    for name in sorted(NAMES, key=lambda name: (name not in STAR, name)):
        agents = population(name, problem_of(name), 1)
        if any(key.endswith("inverse") for key in agents.state()):
            found.setdefault((type(agents).learn, type(agents).answer), name)
    return list(found.values())


def lengths() -> Iterator[Any]:
    """Every algorithm with its number of steps."""
    for name in distinct():
        steps = family_of(name).affordable.get(name, STEPS)
        yield name, steps // SHARE
        yield pytest.param(name, steps, marks=pytest.mark.slow)


@pytest.mark.parametrize(("name", "steps"), list(lengths()))
def test_inverses_stay_positive_definite(name, steps):
    """All arms within 1e-8 of one direction, a small ridge: the inverse's eigenvalues lie ten powers of ten apart.

    The server has the floor whenever somebody calls, as in a run, so that settling and bulk updates take part.
    """
    fields = REGISTRY[name].__dataclass_fields__
    harsh = {field: value for field, value in family_of(name).harsh.items() if field in fields}
    problem = problem_of(name, horizon=steps, clients=2)
    agents = population(name, problem, **harsh)
    server = talkative(name, **harsh).server(problem, 2, Streams(np.random.SeedSequence(0), 1))
    carrier = InProcess(agents, Ledger(), Wire())
    rng = np.random.default_rng(1)
    direction = rng.standard_normal(problem.dim)
    direction /= np.linalg.norm(direction)
    who, picks = np.arange(2), np.zeros(2, dtype=np.int64)
    for part in range(CHECKS):
        noise = 1e-8 * rng.standard_normal((steps // CHECKS, 2, 1, problem.dim))
        rewards = rng.integers(0, 2, (steps // CHECKS, 2)).astype(np.float64)
        for arms, reward in zip(direction + noise, rewards, strict=True):
            agents.learn(who, arms, picks, reward)
            if server is not None and (calling := agents.calling()).any():
                hold(server, np.flatnonzero(calling), carrier)
        for key, inverse in agents.state().items():
            if key.endswith("inverse"):
                np.testing.assert_array_equal(inverse, inverse.swapaxes(1, 2))
                assert (np.linalg.eigvalsh(inverse) > 0).all(), f"{key} after {(part + 1) * steps // CHECKS} steps"
    assert np.isfinite(np.concatenate([array.ravel() for array in agents.state().values()])).all()
