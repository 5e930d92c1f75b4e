"""Confidence sets cover the truth with noise on sums, whatever agents act on; and would not, were it not told."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.channel import Gaussian, repairing, through
from fedbandits.models.noisy_sums import reach

SIZES = {"clients": 12, "dim": 4, "arms": 8}
WORLDS = {
    "gap": fb.environments.Gap(**SIZES),
    "linear-bounded": fb.environments.LinearBounded(**SIZES),
    "many": fb.environments.Gap(**(SIZES | {"clients": 120})),
}
EXACT = [{"own": own, "epsilon": epsilon} for own in ("released", "fused", "recent") for epsilon in (1.0, 20.0)]
PRINTED = [
    {"own": own, "epsilon": 20.0, "mechanism": "tree", "constants": "thesis"} for own in ("released", "fused", "recent")
]
MANY = [*PRINTED, *(given | {"mechanism": mechanism} for given in EXACT for mechanism in ("toeplitz", "tree", "fresh"))]


def covered(stage, world, seeds, algorithm=fb.algorithms.DisLinUCB(), horizon=300):  # noqa: B008  a value
    """The smallest share of agents, at any time looked at, whose set holds their parameter."""
    runs = [
        fb.simulate(through(algorithm, [stage]), WORLDS[world], horizon, seed=seed, coverage=True) for seed in seeds
    ]
    return min(float(np.nanmin(run.coverage)) for run in runs)


@pytest.mark.parametrize("world", ["gap", "linear-bounded"])
@pytest.mark.parametrize("parameters", [*EXACT[:5:2], PRINTED[0]], ids=lambda given: "-".join(map(str, given.values())))
def test_sets_cover(world, parameters):
    assert covered(Gaussian(**parameters), world, range(2)) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("world", ["gap", "linear-bounded"])
@pytest.mark.parametrize("parameters", MANY, ids=lambda given: "-".join(map(str, given.values())))
@pytest.mark.parametrize("algorithm", ["dislinucb", "async-linucb"])
def test_sets_cover_in_many_runs(world, parameters, algorithm):
    assert covered(Gaussian(**parameters), world, range(10), fb.algorithms.ALGORITHMS[algorithm](), 600) >= 0.9


class Understated(Gaussian):
    """The noise is as it should be, and told to be far less."""

    def perturbation(self, problem):
        told = super().perturbation(problem)
        return dataclasses.replace(told, matrix=told.matrix / 50, vector=told.vector / 50)


def test_noise_that_is_not_told_is_not_covered():
    assert covered(Understated(), "gap", range(1)) < 0.5


@pytest.mark.parametrize("world", WORLDS)
def test_sums_of_single_agents_that_a_server_looks_at(world):
    """Each is cut to be semidefinite, and readers know by how much all of them are too large."""
    asynchronous = fb.algorithms.AsyncLinUCB()
    assert covered(Gaussian(), world, range(2), asynchronous) >= 0.9


def test_sums_that_are_shifted_are_not_covered(monkeypatch):
    """By what the noise of one agent may reach, which nobody is told: n of them add up to more than noise does."""
    stage, problem = Gaussian(), WORLDS["many"].world(300, np.random.SeedSequence(0)).problem
    posed = stage.poses(problem)
    shift = reach(stage.noise(posed) * math.sqrt(stage.sums(posed).variances.max()), problem.dim, 0.05)
    nearest = repairing.nearest_semidefinite
    monkeypatch.setattr(
        repairing, "nearest_semidefinite", lambda sums, slack: nearest(sums + shift * np.eye(problem.dim), slack)
    )
    monkeypatch.setattr("fedbandits.models.noisy_sums.Discounted.doubt", 1.0)
    assert covered(stage, "many", range(1), fb.algorithms.AsyncLinUCB()) < 0.5
