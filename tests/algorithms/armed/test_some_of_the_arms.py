"""Agents who know arms by their place can do without some of them, unless they need all."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.algorithms import ALGORITHMS
from fedbandits.algorithms.armed.agents import ArmedAgents
from fedbandits.contract.facts import Moment, Range
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams

ARMS, AGENTS = 4, 3
WHO = np.arange(AGENTS)
ALONE = sorted(name for name, kind in ALGORITHMS.items() if kind.about.family == "armed" and not kind.about.says)
PARAMETERS = {"dp-ucb-int": {"epsilon": 5.0}}


def population(name: str) -> ArmedAgents:
    problem = Problem(
        agents=AGENTS,
        dim=ARMS,
        arms=ARMS,
        horizon=100,
        facts=(Range(0.0, 1.0), Moment(order=2.0, raw=1.0, central=0.25)),
    )
    return ALGORITHMS[name](**PARAMETERS.get(name, {})).agents(
        problem, AGENTS, Streams(np.random.SeedSequence(3), AGENTS)
    )


def shown(*places: int) -> np.ndarray:
    return np.tile(np.eye(ARMS)[list(places)], (AGENTS, 1, 1))


@pytest.mark.parametrize("name", ALONE)
def test_only_shown_arms_are_taken_and_learned_of(name):
    """Arm 2 is away half of the time, and arm 1 is the best: picks are places among the shown, lessons are of arms."""
    agents, rng = population(name), np.random.default_rng(0)
    taken = np.zeros(ARMS)
    for turn in range(120):
        places = np.array([0, 1, 3] if turn % 2 else [0, 1, 2, 3])
        arms = shown(*places)
        picks = agents.choose(WHO, arms)
        assert ((picks >= 0) & (picks < len(places))).all()
        rewards = (rng.random(AGENTS) < np.where(places[picks] == 1, 0.95, 0.05)).astype(float)
        agents.learn(WHO, arms, picks, rewards)
        np.add.at(taken, places[picks], 1)
    assert taken.sum() == 120 * AGENTS
    assert taken.argmax() == 1
    assert (taken > 0).all()


@pytest.mark.parametrize("name", ALONE)
def test_what_is_told_of_some_arms_is_what_is_compared_among_them(name):
    agents, rng = population(name), np.random.default_rng(0)
    for turn in range(30):
        arms = shown(*range(ARMS)) if turn < 15 else shown(1, 3)
        scores, chances = agents.scores(WHO, arms), agents.chances(WHO, arms)
        picks = agents.choose(WHO, arms)
        if scores is not None:
            compared = ~np.isnan(scores).any(axis=1)
            assert scores.shape == arms.shape[:2]
            assert (picks[compared] == scores[compared].argmax(axis=1)).all()
        if chances is not None:
            assert chances.sum(axis=1) == pytest.approx(np.ones(AGENTS))
            assert (chances[WHO, picks] > 0).all()
        agents.learn(WHO, arms, picks, (rng.random(AGENTS) < 0.5).astype(float))


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("places", [(3, 1), (1, 1), (0, 1, 3, 2)])
def test_arms_out_of_order_are_refused(name, places):
    agents = population(name)
    before = agents.state()
    with pytest.raises(ValueError, match="unit vectors, or some of them, in order"):
        agents.choose(WHO, shown(*places))
    assert all(np.array_equal(array, before[key]) for key, array in agents.state().items())


def test_agents_who_need_every_arm_say_so():
    class Rigid(ArmedAgents):
        def _pick(self, who):
            return np.zeros(len(who), dtype=np.int64)

        def _observe(self, who, picks, rewards):
            pass

    agents = Rigid(Problem(agents=AGENTS, dim=ARMS, arms=ARMS, horizon=9), AGENTS)
    with pytest.raises(ValueError, match="Rigid need every arm in each turn"):
        agents.choose(WHO, shown(0, 1))


@pytest.mark.parametrize("name", ["ucb1", "kl-ucb", "thompson-beta", "thompson-gaussian"])
def test_a_dropped_arm_is_one_that_was_never_taken(name):
    agents, never = population(name), population(name)
    for turn in range(12):
        picks = np.full(AGENTS, turn % ARMS)
        agents.learn(WHO, shown(*range(ARMS)), picks, np.ones(AGENTS))
        if turn % ARMS != 2:
            never.learn(WHO, shown(*range(ARMS)), picks, np.ones(AGENTS))
    agents.drop_arm(2)
    ours, theirs = agents.state(), never.state()
    for key in ours:
        if not key.endswith(("turns", "words")):
            assert np.array_equal(ours[key], theirs[key]), key


@pytest.mark.parametrize("name", ["dp-ucb-int", "robust-ucb"])
def test_what_was_spent_or_sorted_cannot_be_dropped(name):
    """A private agent that forgot what it released of an arm would release it again for nothing."""
    with pytest.raises(ValueError, match="cannot drop"):
        population(name).drop_arm(0)
