"""The theorems' expressions, against values computed by hand."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.armed.theory import samples_needed
from fedbandits.contract.facts import Contamination, Moment, Noise, Place, Range
from fedbandits.contract.problem import Problem

MEANS = np.array([0.4, 0.7, 0.5])
GAPS = np.array([0.3, 0.2])
T = 1000


def problem(graph, ttl=1, *known):
    bare = Problem(agents=graph.number_of_nodes(), dim=3, arms=3, horizon=T)
    return bare.knowing(Noise(0.5), Range(0.0, 1.0), Place(graph, ttl), *known)


def leading():
    """sum_k 8 log T / Delta_k, with whole numbers of samples."""
    return sum(gap * np.ceil(8 * np.log(T) / gap**2) for gap in GAPS)


def test_samples_until_the_width_is_half_the_gap():
    for gap in GAPS:
        assert samples_needed(fb.algorithms.UCB1(), problem(nx.path_graph(2)), gap) == np.ceil(8 * np.log(T) / gap**2)
    trimmed = fb.algorithms.UCB1(mean="trimmed", order=1.5, raw=2.0)
    needed = 2 * np.log(T) * (8 * 2.0 ** (1 / 1.5) / 0.3) ** 3
    assert samples_needed(trimmed, problem(nx.path_graph(2)), 0.3) == np.ceil(needed)


def test_contamination_beyond_the_gap_has_no_bound():
    dirty = problem(nx.path_graph(2), 1, Contamination(0.2))
    assert samples_needed(fb.algorithms.RobustFedUCB(), dirty, 0.3) == np.inf
    assert fb.algorithms.RobustFedUCB().bounds(dirty, MEANS).upper == np.inf


def test_fed_ucb1_pays_for_cliques():
    """A path of six at one hop: three cliques, and two agents whose neighbourhoods are disjoint."""
    bounds = fb.algorithms.FedUCB1().bounds(problem(nx.path_graph(6)), MEANS)
    assert bounds.upper == pytest.approx(3 * leading() + (6 + 2) * GAPS.sum())
    single = sum(
        np.log(T) * (0.7 - mean) / (mean * np.log(mean / 0.7) + (1 - mean) * np.log((1 - mean) / 0.3))
        for mean in (0.4, 0.5)
    )
    assert bounds.lower == pytest.approx(2 * single)


def test_best_and_leaders_pay_for_domination():
    star = problem(nx.star_graph(8))
    best = fb.algorithms.FedUCB1Best().bounds(star, MEANS)
    cent = fb.algorithms.CentUCB1().bounds(star, MEANS)
    fed = fb.algorithms.FedUCB1().bounds(star, MEANS)
    assert best.upper == pytest.approx(leading() + (1 * (1 + 2) + 9) * GAPS.sum())
    assert cent.upper == pytest.approx(leading() + (9 * 1 + 9 + 1) * GAPS.sum())
    assert fed.upper == pytest.approx(8 * leading() + (9 + 2) * GAPS.sum())
    assert best.lower == cent.lower == pytest.approx(fed.lower)  # everybody is within two hops of everybody


def test_alone_everybody_pays():
    bounds = fb.algorithms.UCB1().bounds(problem(nx.path_graph(5)), MEANS)
    assert bounds.upper == pytest.approx(5 * (leading() + (1 + np.pi**2 / 3) * GAPS.sum()))


def test_gaussian_divergence_and_none_for_heavy_tails():
    gaussian = problem(nx.path_graph(2), 1, Noise(2.0)).without(Range)
    bounds = fb.algorithms.UCB1(exploration=32.0).bounds(gaussian, MEANS)
    assert bounds.lower == pytest.approx(2 * np.log(T) * sum(2 * 4 / gap for gap in GAPS))
    heavy = gaussian.knowing(Moment(1.5, 2.0, 1.0))
    assert fb.algorithms.RobustUCB().bounds(heavy, MEANS).lower == 0.0


def test_a_run_carries_its_bounds_when_asked():
    env = fb.environments.BernoulliArms(clients=6, arms=3, means=(0.4, 0.7, 0.5))
    trace = fb.simulate(fb.algorithms.FedUCB1(), env, T, network=nx.path_graph(6), theory=True)
    expected = fb.algorithms.FedUCB1().bounds(problem(nx.path_graph(6)), MEANS)
    assert trace.bounds == pytest.approx({"upper": expected.upper, "lower": expected.lower})
    assert expected.lower < trace.regret[-1] < expected.upper
    assert not fb.simulate(fb.algorithms.FedUCB1(), env, 10, network=nx.path_graph(6)).bounds
