"""What all estimators have in common: parameters, widths, doors, snapshots, and agents alone or together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimator_definitions import Diary, empirical
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.algorithms.armed.estimators import ESTIMATORS, EmpiricalMean, Estimation, estimator_for
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Moment, Noise, Range
from fedbandits.contract.problem import Problem

PROBLEM = Problem(agents=4, dim=3, arms=3, horizon=500).knowing(Noise(0.8))
HEAVY = Problem(agents=4, dim=3, arms=3, horizon=500).knowing(Moment(order=1.5, raw=4.0, central=3.0))
KINDS = [{"mean": mean} for mean in ESTIMATORS] + [{"mean": "trimmed", "threshold": "printed"}]


def build(n=4, problem=PROBLEM, **parameters):
    return estimator_for(Estimation(**parameters), problem, n)


def own(who, arms, rewards):
    return np.array(who), np.arange(len(who)), np.array(arms), np.array(rewards, dtype=np.float64)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_known_at_first_and_one_sample_is_the_estimate(kind):
    estimator = build(**kind)
    everybody, turns = np.arange(4), np.full(4, 30)
    assert estimator.estimates(everybody, turns).tolist() == [[0.0] * 3] * 4
    assert np.isposinf(estimator.widths(estimator.counts, turns)).all()
    estimator.gather(*own([2], [1], [0.01]))
    assert estimator.estimates(everybody, turns) == pytest.approx(
        np.array([[0, 0, 0]] * 2 + [[0, 0.01, 0]] + [[0] * 3])
    )
    assert estimator.counts.tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert np.isfinite(estimator.widths(estimator.counts, turns)).tolist() == (estimator.counts > 0).tolist()


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_the_empirical_mean_is_the_mean(seed):
    Diary(build(), seed, tail=1.9).check(40, empirical)


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_alone_and_in_a_population_are_equal_to_the_last_bit(kind):
    rng = np.random.default_rng(5)
    together, alone = build(**kind), [build(n=1, **kind) for _ in range(4)]
    for t in range(1, 61):
        arms, rewards = rng.integers(0, 3, 6), rng.standard_t(2, 6)
        to, row = rng.integers(0, 4, 25), rng.integers(0, 6, 25)
        together.gather(to, row, arms, rewards)
        for i, agent in enumerate(alone):
            mine = to == i
            agent.gather(np.zeros(mine.sum(), dtype=np.int64), row[mine], arms, rewards)
        found = together.estimates(np.arange(4), np.full(4, t))
        for i, agent in enumerate(alone):
            one = np.array([0])
            assert agent.estimates(one, np.array([t])).tobytes() == found[i].tobytes()
            width = agent.widths(agent.counts, np.array([t]))
            assert width.tobytes() == together.widths(together.counts, np.full(4, t))[i].tobytes()
    for i, agent in enumerate(alone):
        ours, theirs = together.share(i), agent.share(0)
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert ours[name].shape == theirs[name].shape
            assert ours[name].tobytes() == theirs[name].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_resumes_to_the_last_bit(kind, tmp_path):
    first, second = Diary(build(**kind), 3), build(**kind)
    turns = np.full(4, 1)
    for t in range(1, 50):
        first.round(30)
        turns[:] = t
        first.estimator.estimates(np.arange(4), turns)
    np.savez(tmp_path / "state.npz", **first.estimator.state())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as saved:
        second.load(dict(saved))
    twin = Diary(second, 0)
    twin.rng = np.random.default_rng(11)
    first.rng = np.random.default_rng(11)
    for t in range(50, 80):
        first.round(30)
        twin.round(30)
        turns[:] = t
        expected = first.estimator.estimates(np.arange(4), turns)
        assert second.estimates(np.arange(4), turns).tobytes() == expected.tobytes()
    ours, theirs = first.estimator.state(), second.state()
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)


def test_a_snapshot_whose_lists_do_not_fit_is_refused():
    estimator = build(mean="catoni")
    estimator.gather(*own([0, 1], [0, 2], [1.0, 2.0]))
    state = estimator.state()
    with pytest.raises(ValueError, match=r"samples\.cells are 1 numbers, its lists have 2"):
        estimator.load(state | {"samples.cells": np.zeros(1)})
    assert estimator.state()["samples.cells"].tolist() == [1.0, 2.0]


def test_lists_of_very_different_lengths_take_little_memory():
    """One of 300 lists gets 30000 numbers: far fewer cells than 300 times as many."""
    estimator = estimator_for(Estimation(mean="catoni"), PROBLEM, 100)
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(30):
        rewards = rng.normal(size=1000)
        kept.append(rewards)
        estimator.gather(np.full(1000, 7), np.arange(1000), np.full(1000, 2), rewards)
    assert estimator.samples.cells.tolist() == np.concatenate(kept).tolist()
    assert len(estimator.samples.lists.cells) < 8 * 30000


@pytest.mark.parametrize(
    ("letters", "match"),
    [
        (([4], [0], [0], [1.0]), r"agents outside 0\.\.3: 4\.\.4"),
        (([-1], [0], [0], [1.0]), r"agents outside"),
        (([0], [1], [0], [1.0]), r"rows outside 0\.\.0: 1\.\.1"),
        (([0], [-1], [0], [1.0]), r"rows outside"),
        (([0], [0], [3], [1.0]), r"arms outside 0\.\.2: 3\.\.3"),
        (([0], [0], [-1], [1.0]), r"arms outside"),
        (([0], [0], [0], [np.nan]), r"\[nan\] are not finite"),
        (([0], [0], [0], [np.inf]), r"not finite"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_makes_no_sense_is_refused_before_anything_has_changed(kind, letters, match):
    estimator = build(**kind)
    with pytest.raises(ValueError, match=match):
        estimator.gather(*(np.array(part) for part in letters))
    assert estimator.counts.sum() == 0


def test_what_was_summed_up_elsewhere_is_merged():
    estimator = build()
    estimator.gather(*own([1, 3], [0, 2], [2.0, 5.0]))
    assert isinstance(estimator, EmpiricalMean)
    estimator.merge(np.array([3, 1]), np.array([[0.0, 1, 7], [4, 0, 0]]), np.array([[0, 1, 2], [2, 0, 0]]))
    assert estimator.estimates(np.array([1, 3]), np.array([1, 1])).tolist() == [[2, 0, 0], [0, 1, 4]]


# --- widths ---


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, math.sqrt(2 * math.log(20) / 50)),
        ({"exploration": 8.0, "scale": 0.5}, 0.5 * math.sqrt(8 * math.log(20) / 50)),
        (
            {"mean": "trimmed", "order": 1.5, "raw": 4.0},
            4 * 4.0 ** (2 / 3) * (2 * math.log(20) / 50) ** (1 / 3),
        ),
        (
            {"mean": "median-of-means", "order": 1.5, "central": 3.0},
            36 ** (2 / 3) * (16 * math.log(math.exp(1 / 8) * 400) / 50) ** (1 / 3),
        ),
        ({"mean": "catoni", "central": 3.0}, 2 * math.sqrt(3 * math.log(400) / 50)),
        (
            {"mean": "shortest-interval", "central": 4.0, "contamination": 0.09, "scale": 3.0},
            3 * (2 * 0.3 + 2 * math.sqrt(2 * math.log(20) / 50)),
        ),
    ],
)
def test_widths_in_numbers(parameters, expected):
    estimator = build(**parameters)
    counts, turns = np.array([[50, 0, 50], [0, 50, 50]]), np.array([20, 20])
    e, inf = expected, np.inf
    assert estimator.widths(counts, turns) == pytest.approx(np.array([[e, inf, e], [inf, e, e]]), rel=1e-13)


# --- parameters ---


def test_tails_follow_from_the_problem():
    given = Estimation(order=1.2, raw=7.0, central=5.0)
    assert (given.tail_order(HEAVY), given.raw_moment(HEAVY), given.central_moment(HEAVY)) == (1.2, 7.0, 5.0)
    left_out = Estimation()
    assert (left_out.tail_order(HEAVY), left_out.raw_moment(HEAVY), left_out.central_moment(HEAVY)) == (1.5, 4.0, 3.0)
    assert left_out.tail_order(PROBLEM) == 2
    assert left_out.central_moment(PROBLEM) == pytest.approx(0.64)
    assert left_out.raw_moment(PROBLEM) == pytest.approx(0.64 + 1.0)
    ranged = Problem(agents=1, dim=2, arms=2, horizon=9).knowing(Noise(0.5), Range(-3.0, 1.0))
    assert left_out.raw_moment(ranged) == 9.0


def test_a_lower_order_follows_by_jensens_inequality():
    lower = Estimation(order=1.2)
    assert lower.raw_moment(HEAVY) == pytest.approx(4 ** (1.2 / 1.5))
    assert lower.central_moment(HEAVY) == pytest.approx(3 ** (1.2 / 1.5))
    sample = np.abs(np.random.default_rng(0).standard_t(3, 1000))
    assert (sample**1.2).mean() <= (sample**1.5).mean() ** (1.2 / 1.5)


@pytest.mark.parametrize(
    ("parameters", "problem", "match"),
    [
        ({"mean": "trimmed", "order": 2.0}, HEAVY, "raw: must be given for order = 2.0"),
        ({"mean": "median-of-means", "order": 1.8}, HEAVY, "central: must be given for order = 1.8"),
        ({"mean": "catoni"}, HEAVY, "order: mean = 'catoni' rests on a finite variance"),
        ({"mean": "shortest-interval"}, HEAVY, "set order = 2 and central"),
        (
            {"mean": "catoni"},
            Problem(agents=1, dim=2, arms=2, horizon=9).knowing(Noise(0.0)),
            "central: must be above 0",
        ),
    ],
)
def test_what_does_not_follow_has_to_be_given(parameters, problem, match):
    with pytest.raises(ConfigError, match=match):
        estimator_for(Estimation(**parameters), problem, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mean": "mode"},
        {"scale": 0},
        {"exploration": -1},
        {"order": 1.0},
        {"order": 2.1},
        {"raw": 0},
        {"central": math.inf},
        {"contamination": 0.5},
        {"threshold": "guessed"},
        {"widht": 1},
    ],
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Estimation(**wrong)
