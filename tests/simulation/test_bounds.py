"""What theory says of a run, with K known means and where arms change at every turn."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import IndependentLinUCB
from fedbandits.contract.algorithm import Bounds
from fedbandits.contract.parameters import parameters
from fedbandits.experiments import run_experiment
from fedbandits.findings.metrics import measure

LINEAR = fb.environments.Linear(clients=3, dim=2, arms=4)
ARMED = fb.environments.BernoulliArms(clients=3, arms=3, means=(0.4, 0.7, 0.5))


@parameters
class Told(IndependentLinUCB):
    """Of which theory says sqrt(d n T) and four times that, and nothing where means are known."""

    def bounds(self, problem, means):
        if means is not None:
            assert sorted(means) == [0.4, 0.5, 0.7]
            return None
        rate = math.sqrt(problem.dim * problem.agents * problem.horizon)
        return Bounds(4 * rate, rate)


def test_bounds_are_asked_for_where_arms_change():
    trace = fb.simulate(Told(), LINEAR, 50, theory=True)
    rate = math.sqrt(2 * 3 * 50)
    assert trace.bounds == {"upper": 4 * rate, "lower": rate}
    last = trace.frame().iloc[-1]
    assert (last["upper_bound"], last["lower_bound"]) == (4 * rate, rate)
    assert fb.simulate(Told(), LINEAR, 50).bounds == {}


def test_known_means_are_told():
    assert fb.simulate(Told(), ARMED, 20, theory=True).bounds == {}
    assert fb.simulate("ucb1", ARMED, 20, theory=True).bounds.keys() == {"upper", "lower"}


def test_theory_of_known_means_says_nothing_where_there_are_none():
    problem = LINEAR.world(20, np.random.SeedSequence(0)).problem
    for name in ("FedUCB1", "FedUCB1Best", "CentUCB1", "UCB1"):
        assert getattr(fb.algorithms, name)().bounds(problem, None) is None


def test_claims_hold_contextual_runs_against_theory(tmp_path, monkeypatch):
    monkeypatch.setitem(fb.algorithms.ALGORITHMS._own, "told", Told)
    path = tmp_path / "told.toml"
    path.write_text(
        """
title = "t"
source = "s"
[environment]
name = "linear"
clients = 3
dim = 2
arms = 4
[run]
horizon = 50
seeds = 5
theory = true
[algorithms.told]
name = "told"
[[claims]]
kind = "between"
text = "x"
metric = "regret_per_upper_bound"
of = "told"
high = 1.0
"""
    )
    results = run_experiment(path)
    final = results.final()
    share = measure(final, "regret_per_upper_bound")
    assert share.to_numpy() == pytest.approx(final["regret"].to_numpy() / (4 * math.sqrt(2 * 3 * 50)))
    assert [claim.verdict for claim in results.claims] == ["holds"]
